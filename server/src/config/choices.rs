//! Settings that choose from a few words: roles, resolver, roots.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use crate::world::{resolver::ResolverKind, tls::Roots};

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each role is on or off by itself")]
pub struct Roles {
    /// Answers `/v1`.
    pub api: bool,
    /// Receives webhooks.
    pub ingress: bool,
    /// Shows pages.
    pub console: bool,
    /// Delivers.
    pub worker: bool,
}

impl Roles {
    /// Everything in one process.
    pub const ALL: Self = Self { api: true, ingress: true, console: true, worker: true };

    /// Reads what the setting says.
    pub(super) fn parse(names: &[String]) -> Result<Self, String> {
        let mut roles = Self::default();
        for name in names {
            match name.as_str() {
                "api" => roles.api = true,
                "ingress" => roles.ingress = true,
                "console" => roles.console = true,
                "worker" => roles.worker = true,
                _ => return Err(format!("{name:?} is no role; roles are {}", Self::ALL)),
            }
        }
        if names.is_empty() {
            return Err(format!("name at least one of {}", Self::ALL));
        }
        Ok(roles)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.api, "api"),
            (self.ingress, "ingress"),
            (self.console, "console"),
            (self.worker, "worker"),
        ];
        let names: Vec<_> = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// `own`, `system`, or the addresses of name servers.
pub(super) fn resolver(texts: &[String]) -> Result<ResolverKind, String> {
    let address = |text: &String| {
        let with_port = text.parse::<SocketAddr>();
        with_port.or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)))
    };
    match texts {
        [word] if word == "own" => Ok(ResolverKind::Direct),
        [word] if word == "system" => Ok(ResolverKind::System),
        _ => match texts.iter().map(address).collect::<Result<Vec<_>, _>>() {
            Ok(servers) if !servers.is_empty() => Ok(ResolverKind::Servers(servers)),
            _ => Err("write own, system or addresses of name servers, such as 10.0.0.2".to_owned()),
        },
    }
}

/// `system`, `bundled` or a file.
pub(super) fn roots(text: &str) -> Result<Roots, &'static str> {
    match text {
        "system" => Ok(Roots::System),
        "bundled" => Ok(Roots::Bundled),
        path if path.contains(['/', '.']) => Ok(Roots::File(path.into())),
        _ => Err("write system, bundled or the path of a PEM file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named() {
        let parse = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            Roles::parse(&names)
        };
        let some = Roles { api: true, worker: true, ..Roles::default() };
        assert_eq!(parse(&["worker", "api"]), Ok(some));
        assert_eq!(some.to_string(), "api, worker");
        assert!(parse(&["cook"]).unwrap_err().contains("\"cook\" is no role"));
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn a_resolver_is_a_word_or_addresses() {
        let read = |text: &str| resolver(&[text.to_owned()]);
        assert!(matches!(read("own"), Ok(ResolverKind::Direct)));
        assert!(matches!(read("system"), Ok(ResolverKind::System)));
        let Ok(ResolverKind::Servers(servers)) = read("10.0.0.2") else { panic!("an address") };
        assert_eq!(servers, ["10.0.0.2:53".parse().unwrap()]);
        assert!(matches!(read("[::1]:5353"), Ok(ResolverKind::Servers(_))));
        assert!(read("google").is_err() && resolver(&[]).is_err());
    }
}
