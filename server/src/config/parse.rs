//! How single values are written: flags, numbers within limits, secrets, addresses, URLs.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use url::Url;

use crate::domain::duration;

/// A text that must not be seen: a key, a URL with a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Confidential(String);

impl Confidential {
    /// Takes charge of a secret's text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Prints nothing of what it holds.
impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confidential")
    }
}

/// `true` or `false`, and nothing else: `yes`, `1` and `on` mean different things to different
/// people's tools.
pub fn flag(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "write true or false")
}

/// A whole number from `least` to `most`.
pub fn number<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    move |text| match text.replace('_', "").parse::<T>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("write a whole number from {least} to {most}")),
    }
}

/// A duration from `least` to `most`.
pub fn duration(least: Duration, most: Duration) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| {
        let read = duration::parse(text).map_err(|error| error.to_string())?;
        if read < least || read > most {
            let (least, most) = (duration::format(least), duration::format(most));
            return Err(format!("it must be from {least} to {most}"));
        }
        Ok(read)
    }
}

/// An address and a port to listen on.
pub fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    let everywhere = text.strip_prefix(':').map(|port| format!("0.0.0.0:{port}"));
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let text = everywhere.or(local).unwrap_or_else(|| text.to_owned());
    text.parse().map_err(|_| "write an address and a port, for example 127.0.0.1:8080 or [::]:8080")
}

/// A URL of ours, without the slash at its end, so that paths can be put behind it.
pub fn base_url(text: &str) -> Result<String, &'static str> {
    const REMEDY: &str = "write a URL without query, for example https://hooks.example.com";
    let url = Url::parse(text).map_err(|_| REMEDY)?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !plain {
        return Err(REMEDY);
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A secret as written, or from where `env:NAME` or `file:PATH` says. A file's last line end is
/// no part of it, because editors put one there.
pub fn confidential(
    environment: &[(String, String)],
) -> impl Fn(&str) -> Result<Confidential, String> {
    move |text| {
        if let Some(name) = text.strip_prefix("env:") {
            let found = environment.iter().find(|(variable, _)| variable == name);
            let (_, value) = found.ok_or_else(|| format!("the variable {name} is not set"))?;
            return Ok(Confidential::new(value));
        }
        if let Some(path) = text.strip_prefix("file:") {
            let read = std::fs::read_to_string(PathBuf::from(path));
            let read = read.map_err(|error| format!("cannot read {path}: {error}"))?;
            return Ok(Confidential::new(read.trim_end_matches(['\r', '\n'])));
        }
        Ok(Confidential::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_limits() {
        for (text, expected, why) in [
            ("1", Some(1), "the least"),
            ("1_000", Some(1000), "as TOML writes it"),
            ("0", None, "too few"),
            ("1001", None, "too many"),
            ("-1", None, "negative"),
            ("5.5", None, "a fraction"),
            ("99999999999999999999999", None, "beyond any integer"),
        ] {
            assert_eq!(number(1_u32, 1000)(text).ok(), expected, "{text}: {why}");
        }
    }

    #[test]
    fn addresses_to_listen_on_have_a_port() {
        for (text, expected) in [
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            (":8080", Some("0.0.0.0:8080")),
            ("localhost:0", Some("127.0.0.1:0")),
            ("[::]:8080", Some("[::]:8080")),
            ("8080", None),
            ("example.com:80", None),
            ("127.0.0.1:65536", None),
        ] {
            let read = listen(text).ok().map(|address| address.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_base_url_is_plain() {
        assert_eq!(base_url("https://a.example/hooks/").as_deref(), Ok("https://a.example/hooks"));
        for text in ["a.example", "ftp://a.example", "https://a.example/?x=1", "http://u@a.example"]
        {
            assert!(base_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_comes_from_where_it_is_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "from file\n").unwrap();
        let environment = [("PLACE".to_owned(), "from variable".to_owned())];
        let read = |text: &str| confidential(&environment)(text);

        assert_eq!(read("plain").unwrap().expose(), "plain");
        assert_eq!(read("env:PLACE").unwrap().expose(), "from variable");
        assert_eq!(read(&format!("file:{}", file.path().display())).unwrap().expose(), "from file");
        assert_eq!(read("env:ELSEWHERE").unwrap_err(), "the variable ELSEWHERE is not set");
        assert!(read("file:/nowhere").unwrap_err().starts_with("cannot read /nowhere: "));
    }
}
