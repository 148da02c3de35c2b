//! What `snaphook doctor` looks at. Each check says what it found and, unless all is well, what
//! to do about it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::{net::TcpStream, time::timeout};
use url::Url;

use super::{settings_args::connect, source_checks::sources};
use crate::{
    config::{
        self, Settings, Sources,
        master_key::{keyring, path_beside},
    },
    domain::{outcome::Plain, time::Timestamp},
    server::files::{FILES_WANTED, hard_limit},
    store::{Store, seal::MasterKey},
    world::{
        guard::Policy,
        own_addresses::own_addresses,
        proxy::ProxySettings,
        real::{chance, wall_clock},
        resolver::look_up,
    },
};

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, but somebody should know.
    Warning,
    /// Does not work.
    Failed,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it went.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do, unless it is as it should be.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warning, remedy: Some(remedy.into()), ..Self::ok(check, found) }
    }

    pub(super) fn failed(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Failed, ..Self::warning(check, found, remedy) }
    }
}

/// A clock further off than this makes signatures look old: receivers allow five minutes, and
/// half of it may be theirs.
const CLOCK_OFF_MAX: Duration = Duration::from_mins(2);

/// For a connection to something near, which answers in milliseconds if it does at all.
const NEAR: Duration = Duration::from_secs(2);

/// Where clouds keep their machines' credentials.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Where settings come from. They are valid, or there would be no doctor.
pub fn settings(sources: &Sources) -> Finding {
    let shown = config::show(sources);
    let set: Vec<_> = shown
        .iter()
        .filter(|shown| shown.origin != "default")
        .map(|shown| format!("{} ({})", shown.key.name, shown.origin))
        .collect();
    let found = if set.is_empty() { "all defaults".to_owned() } else { set.join(", ") };
    Finding::ok("settings", found)
}

/// Whether there is a key that seals secrets. Makes none.
pub fn master_key(settings: &Settings) -> Finding {
    const CHECK: &str = "master key";
    let remedy = "put the output of `openssl rand -base64 32` into SNAPHOOK_MASTER_KEY, \
                  and keep a copy outside the database";
    let text = match (&settings.master_key, settings.database.file()) {
        (Some(key), _) => key.expose().to_owned(),
        (None, None) => return Finding::failed(CHECK, "not set", remedy),
        (None, Some(file)) => match std::fs::read_to_string(path_beside(file)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Finding::ok(CHECK, "none yet; the server makes it at first start");
            }
            Err(error) => {
                let path = path_beside(file);
                return Finding::failed(CHECK, format!("{}: {error}", path.display()), remedy);
            }
        },
    };
    match MasterKey::parse(&text) {
        Ok(key) => Finding::ok(CHECK, format!("key {}", key.id())),
        Err(error) => Finding::failed(CHECK, error.to_string(), remedy),
    }
}

/// Whether the database is there, has its schema, and agrees with us on what time it is.
pub async fn database(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "database";
    if let Some(file) = settings.database.file().filter(|file| !file.exists()) {
        let found = format!("{} does not exist yet", file.display());
        return vec![Finding::warning(CHECK, found, "the server or `snaphook migrate` makes it")];
    }
    let store = match connect(settings).await {
        Ok(store) => store,
        Err(error) => {
            let remedy = "is it running, and may this host reach it? The setting is `database`";
            return vec![Finding::failed(CHECK, error.to_string(), remedy)];
        }
    };
    let mut findings = vec![schema(settings, &store).await, clock(&store).await];
    // Not where the key would be made by being asked for.
    let has_key = settings.master_key.is_some()
        || settings.database.file().is_some_and(|file| path_beside(file).exists());
    if let (Level::Ok, true) = (findings[0].level, has_key)
        && let Ok(keyring) = keyring(settings, chance)
    {
        let found = sources(settings, &store, Arc::new(keyring), wall_clock()).await;
        findings.extend(found);
    }
    store.close().await;
    findings
}

async fn schema(settings: &Settings, store: &Store) -> Finding {
    const CHECK: &str = "database";
    match store.list_pending_migrations().await {
        Ok(pending) if pending.is_empty() => {
            Finding::ok(CHECK, format!("{}, schema up to date", settings.database))
        }
        Ok(pending) => Finding::warning(
            CHECK,
            format!("{} lacks migrations: {}", settings.database, pending.join(", ")),
            "run `snaphook migrate`; the server does it at start if its role may",
        ),
        Err(error) => Finding::failed(CHECK, error.to_string(), "start the binary that fits"),
    }
}

async fn clock(store: &Store) -> Finding {
    const CHECK: &str = "clock";
    let asked = async { store.read().await?.clock().await };
    let theirs: Timestamp = match asked.await {
        Ok(time) => time,
        Err(error) => {
            let found = format!("the database does not tell the time: {error}");
            return Finding::failed(CHECK, found, "see above");
        }
    };
    let ours = wall_clock();
    let off = ours.since(theirs).max(theirs.since(ours));
    let found = format!("{} ms from the database's", off.as_millis());
    if off > CLOCK_OFF_MAX {
        let remedy =
            "receivers refuse what is signed five minutes off: set both hosts' clocks by NTP";
        Finding::failed(CHECK, found, remedy)
    } else {
        Finding::ok(CHECK, found)
    }
}

/// Whether names can be looked up. That a name does not exist is an answer too.
pub async fn dns(settings: &Settings) -> Finding {
    const CHECK: &str = "dns";
    if settings.proxy.as_ref().is_some_and(ProxySettings::guards) {
        return Finding::ok(CHECK, "left to the proxy");
    }
    let own = Url::parse(&settings.base_url).ok().and_then(|url| url.domain().map(str::to_owned));
    let host = own.filter(|host| host.contains('.')).unwrap_or_else(|| "example.com".to_owned());
    match look_up(&settings.resolver, &host).await {
        Ok(addresses) => Finding::ok(CHECK, format!("{host} is {}", addresses[0])),
        Err(error) if error.reason == Plain::DnsNotFound.into() => {
            Finding::ok(CHECK, format!("name servers answer; {host} does not exist"))
        }
        Err(error) => Finding::failed(
            CHECK,
            error.to_string(),
            "nothing can be delivered to a name: look at /etc/resolv.conf, or set dns.resolver",
        ),
    }
}

/// Whether the network keeps us from what the guard keeps us from: a second fence.
pub async fn egress(settings: &Settings) -> Finding {
    const CHECK: &str = "egress";
    if settings.proxy.is_some() {
        return Finding::ok(CHECK, "through the proxy that egress.proxy names");
    }
    match timeout(NEAR, TcpStream::connect(METADATA)).await {
        Ok(Ok(_)) => Finding::warning(
            CHECK,
            format!("{} is reachable from here", METADATA.ip()),
            "the guard refuses it; let the network refuse it too",
        ),
        _ => Finding::ok(CHECK, "direct; the cloud's metadata service is out of reach"),
    }
}

/// Whether enough files and connections may be open.
pub fn files() -> Finding {
    const CHECK: &str = "files";
    match hard_limit() {
        Some(files) if files < FILES_WANTED => Finding::warning(
            CHECK,
            format!("{files} may be open; a busy server wants {FILES_WANTED}"),
            "raise the limit: ulimit -n, LimitNOFILE= of systemd, --ulimit of a container",
        ),
        Some(files) => Finding::ok(CHECK, format!("{files} may be open")),
        None => Finding::ok(CHECK, "as many as there are may be open"),
    }
}

/// What the operator's lists open, and whether our own addresses are known.
pub fn guard(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "guard";
    let own = match own_addresses() {
        Ok(own) => Finding::ok(CHECK, format!("{} addresses of this host are refused", own.len())),
        Err(error) => {
            let found = format!("this host's addresses cannot be read: {error}");
            Finding::failed(CHECK, found, "without them endpoints could reach our own ports")
        }
    };
    vec![own, opened(&settings.guard)]
}

fn opened(policy: &Policy) -> Finding {
    const CHECK: &str = "guard";
    let metadata = policy.check_address("metadata", METADATA.ip(), METADATA.port(), false);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let loopback = policy.check_address("localhost", loopback, 8080, false);
    match (metadata.is_ok(), loopback.is_ok()) {
        (true, _) => Finding::failed(
            CHECK,
            "guard.allow opens 169.254.169.254, where clouds keep this machine's credentials",
            "take that range out of guard.allow",
        ),
        (_, true) => Finding::warning(
            CHECK,
            "guard.allow opens loopback: every tenant's endpoint may reach this machine's services",
            "for development only; for your own endpoints use reach: internal",
        ),
        _ => Finding::ok(CHECK, "loopback and cloud metadata are refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Confidential, database::DatabaseUrl};

    #[test]
    fn lists_that_open_too_much_are_named() {
        for (allow, expected, why) in [
            (vec![], Level::Ok, "the table alone"),
            (vec!["127.0.0.0/8"], Level::Warning, "development"),
            (vec!["169.254.0.0/16"], Level::Failed, "credentials of the machine"),
            (vec!["10.0.0.0/8"], Level::Ok, "the operator's choice"),
        ] {
            let none: [&str; 0] = [];
            let policy = Policy::new(&allow, &none, &["80-65535"], false).unwrap();
            let finding = opened(&policy);
            assert_eq!(finding.level, expected, "{why}: {finding:?}");
            assert_eq!(finding.remedy.is_some(), expected != Level::Ok, "{why}");
        }
    }

    #[test]
    fn a_master_key_is_judged_and_never_shown() {
        let mut settings = Settings::defaults();
        settings.database = DatabaseUrl::parse("postgres://db/app").unwrap();
        assert_eq!(master_key(&settings).level, Level::Failed, "not set");
        for (key, expected) in [("00112233".repeat(8), Level::Ok), ("short".into(), Level::Failed)]
        {
            settings.master_key = Some(Confidential::new(key.clone()));
            let finding = master_key(&settings);
            assert_eq!(finding.level, expected, "{finding:?}");
            assert!(!finding.found.contains(&key), "{finding:?}");
        }
    }
}
