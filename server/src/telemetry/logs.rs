//! Logs: lines on standard error, for people as text, for machines as one JSON object a line.
//!
//! A request's id and a delivery's id are fields of the spans around the work, so every line
//! written inside carries them. Payloads, secrets, headers and the query of a URL are never
//! logged: they are the customers'. What other crates log below `warn` is left out unless asked
//! for by name, because it is written for those crates' own authors.

use std::{fmt, io::IsTerminal as _, str::FromStr};

use tracing_subscriber::{EnvFilter, fmt::MakeWriter, layer::SubscriberExt as _};

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("write text or json"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Which lines are written: a level, or a list of directives such as `info,sqlx=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level(String);

/// Why a text is no [`Level`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write error, warn, info, debug or trace, or directives such as info,sqlx=debug")]
pub struct LevelError;

impl FromStr for Level {
    type Err = LevelError;
    fn from_str(text: &str) -> Result<Self, LevelError> {
        let directives = match text {
            "error" => "error".to_owned(),
            "warn" | "info" | "debug" | "trace" => format!("warn,snaphook={text}"),
            // `EnvFilter` would take a misspelled level for the name of a target.
            _ if !text.contains('=') => return Err(LevelError),
            _ => text.to_owned(),
        };
        EnvFilter::builder().parse(&directives).map_err(|_| LevelError)?;
        Ok(Self(directives))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sends all logs of this process to standard error. Does nothing when logs go somewhere already.
pub fn start(format: Format, level: &Level) {
    let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = subscriber(format, level, colors, std::io::stderr);
    // Fails only when there is one already, as in a test binary: then that one has the say.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// The subscriber that [`start`] installs, for any writer.
fn subscriber<W>(
    format: Format,
    level: &Level,
    colors: bool,
    writer: W,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse_lossy(&level.0);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Text => Box::new(registry.with(lines.with_ansi(colors).with_target(false))),
        Format::Json => {
            Box::new(registry.with(lines.json().flatten_event(true).with_current_span(false)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, level: &str, work: impl FnOnce()) -> String {
        let lines = Lines::default();
        let made = lines.clone();
        let subscriber = subscriber(format, &level.parse().unwrap(), false, move || made.clone());
        tracing::subscriber::with_default(subscriber, work);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_json_line_carries_the_ids_of_the_spans_around_it() {
        let line = logged(Format::Json, "info", || {
            let _request = tracing::info_span!("request", request = "req-1").entered();
            let _delivery = tracing::info_span!("attempt", delivery = "dlv_1").entered();
            tracing::info!(status = 503, "the endpoint did not take it");
        });

        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["message"], "the endpoint did not take it");
        assert_eq!(line["status"], 503);
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["spans"][0]["request"], "req-1");
        assert_eq!(line["spans"][1]["delivery"], "dlv_1");
    }

    #[test]
    fn a_level_is_ours_and_other_crates_speak_from_warn() {
        let text = logged(Format::Text, "debug", || {
            tracing::debug!(target: "snaphook::engine", "ours");
            tracing::info!(target: "sqlx::query", "theirs");
            tracing::warn!(target: "sqlx::query", "their warning");
        });

        assert!(text.contains("ours") && text.contains("their warning"), "{text}");
        assert!(!text.contains("theirs"), "{text}");
    }

    #[test]
    fn a_misspelled_level_is_refused() {
        for text in ["verbose", "INFORM", "", "debug,trace", "snaphook=loud"] {
            assert_eq!(text.parse::<Level>(), Err(LevelError), "{text}");
        }
        assert!("info,sqlx=debug".parse::<Level>().is_ok());
    }
}
