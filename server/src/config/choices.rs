//! Settings that choose from a few words: roles, resolver, roots.

use std::{fmt, path::PathBuf};

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

/// Who is asked for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// The name servers of this host, by our own client.
    Own,
    /// The C library.
    System,
}

/// Whom receivers' certificates must come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// The operating system's list.
    System,
    /// Mozilla's list in this binary.
    Bundled,
    /// A PEM file.
    File(PathBuf),
}

impl Resolver {
    /// Reads what the setting says.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "own" => Ok(Self::Own),
            "system" => Ok(Self::System),
            _ => Err("write own or system"),
        }
    }
}

impl Roots {
    /// Reads what the setting says.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "system" => Ok(Self::System),
            "bundled" => Ok(Self::Bundled),
            path if path.contains(['/', '.']) => Ok(Self::File(path.into())),
            _ => Err("write system, bundled or the path of a PEM file"),
        }
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
}
