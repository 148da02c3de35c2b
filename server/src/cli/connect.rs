//! Which server the client commands talk to, and with which key: flags, then the environment,
//! then what `snaphook dev` left in this folder.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use url::Url;

use super::exit::Failure;
use crate::config::Confidential;

/// Where `dev` leaves its URL and key, below the folder that it was started in.
pub const CLIENT_FILE: &str = ".snaphook/client.env";

/// Flags of every command that talks to a server.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientArgs {
    /// The server's URL; beside `snaphook dev` it is found by itself
    #[arg(long, global = true, env = "SNAPHOOK_URL", value_name = "URL")]
    pub server: Option<String>,
    /// The API key; better in the environment, because others can see a process's flags
    #[arg(
        long,
        global = true,
        env = "SNAPHOOK_API_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub api_key: Option<String>,
    /// Print JSON: the API's own, one thing a line
    #[arg(long, global = true)]
    pub json: bool,
}

/// A server and a key for it.
#[derive(Debug)]
pub struct Server {
    /// Without a slash at the end.
    pub url: Url,
    /// What proves who we are.
    pub api_key: Confidential,
}

impl ClientArgs {
    /// The server to talk to. The file is read only for what flags and environment leave open,
    /// and its key goes to its own server only.
    pub fn server(&self) -> anyhow::Result<Server> {
        let (url, key) = (self.server.clone(), self.api_key.clone());
        for (given, name) in [(&url, "SNAPHOOK_URL"), (&key, "SNAPHOOK_API_KEY")] {
            if given.as_deref() == Some("") {
                return Err(Failure::usage(format!("{name} is empty"))
                    .hint("unset it, or give a value; --server and --api-key take one too")
                    .into());
            }
        }
        let left = if url.is_none() { read(Path::new(CLIENT_FILE))? } else { Left::default() };
        let Some(url) = url.or(left.url) else {
            return Err(Failure::usage("no server is named")
                .hint("set SNAPHOOK_URL, or start `snaphook dev` in this folder")
                .into());
        };
        let Some(api_key) = key.or(left.key) else {
            return Err(Failure::usage(format!("there is no key for {url}"))
                .hint("set SNAPHOOK_API_KEY; `snaphook keys create --role operator` makes one")
                .into());
        };
        Ok(Server { url: parse(&url)?, api_key: Confidential::new(api_key) })
    }
}

fn parse(text: &str) -> anyhow::Result<Url> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(Failure::usage(format!("{text:?} is no server's URL"))
            .hint("write one like https://hooks.example.com or http://127.0.0.1:8080")
            .into()),
    }
}

#[derive(Debug, Default)]
struct Left {
    url: Option<String>,
    key: Option<String>,
}

fn read(path: &Path) -> anyhow::Result<Left> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Left::default()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let value = |name: &str| {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        text.lines().find_map(of)
    };
    Ok(Left { url: value("SNAPHOOK_URL"), key: value("SNAPHOOK_API_KEY") })
}

/// The key that a server left in `path`.
pub fn left_key(path: &Path) -> anyhow::Result<Option<String>> {
    Ok(read(path)?.key)
}

/// Leaves a server's URL and key in `path`, readable by its owner alone. A shell can source it.
pub fn leave(path: &Path, url: &str, api_key: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // Made anew, because an old file might have been opened to others.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(failed);
        }
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(failed)?;
    write!(file, "SNAPHOOK_URL={url}\nSNAPHOOK_API_KEY={api_key}\n").with_context(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_left_is_found_and_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.env");
        std::fs::write(&path, "old, and open to all").unwrap();

        leave(&path, "http://127.0.0.1:1", "key").unwrap();

        let left = read(&path).unwrap();
        assert_eq!(left.url.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(left.key.as_deref(), Some("key"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read(&folder.path().join("nothing")).unwrap().url.is_none());
    }

    #[test]
    fn a_server_that_is_named_gets_no_other_servers_key() {
        let args = |server: &str, key: Option<&str>| ClientArgs {
            server: Some(server.to_owned()),
            api_key: key.map(str::to_owned),
            json: false,
        };
        let error = args("http://a.example", None).server().unwrap_err();
        assert!(error.to_string().starts_with("there is no key for http://a.example"), "{error}");
        for (server, key, name) in
            [("", Some("k"), "SNAPHOOK_URL"), ("http://a.example", Some(""), "SNAPHOOK_API_KEY")]
        {
            let error = args(server, key).server().unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name} is empty")), "{error}");
        }
        let error = args("a.example", Some("k")).server().unwrap_err();
        assert!(error.to_string().contains("is no server's URL"), "{error}");
        assert!(args("https://a.example/sub/", Some("k")).server().is_ok());
    }
}
