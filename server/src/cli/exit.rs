//! How a command ends: the exit codes that scripts rely on, and errors that carry one.

use std::fmt;

/// The exit codes, which are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed for another reason than those below.
    Failed = 1,
    /// The command line or the input is wrong; clap uses it too.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// No key, a wrong key, or one that may not do this.
    NotAllowed = 4,
    /// It is there, but its state does not allow this.
    Refused = 5,
    /// The server cannot be reached, or is not ready.
    Unreachable = 6,
    /// A check failed: `doctor`, `endpoints test`, `listen --once`, `verify`.
    CheckFailed = 8,
}

/// An error with an exit code, and what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What the process exits with.
    pub exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A sentence in lower case that names the thing and the value.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// For input that only the command can judge, not clap.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The next thing to do, most often a command.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n  {hint}"))
    }
}

/// The exit code of an error, wherever in the chain it says one. A reader who closed the pipe
/// (`… | head`) has what it wanted.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        kind == Some(std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        return Exit::Done;
    }
    error.chain().find_map(|cause| cause.downcast_ref::<Failure>()).map_or(Exit::Failed, |f| f.exit)
}

/// How a check ends, however much of it somebody wanted to read: `… | head` must not pass what
/// failed.
pub fn checked(passed: bool, shown: anyhow::Result<()>) -> anyhow::Result<Exit> {
    let exit = if passed { Exit::Done } else { Exit::CheckFailed };
    match shown {
        Err(error) if exit_of(&error) != Exit::Done => Err(error),
        _ => Ok(exit),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_exit_code_is_found_below_any_context() {
        let failure = Failure::new(Exit::NotFound, "no such endpoint").hint("look at the list");
        let error = Err::<(), _>(failure).context("could not pause").unwrap_err();

        assert_eq!(exit_of(&error), Exit::NotFound);
        assert_eq!(format!("{error:#}"), "could not pause: no such endpoint\n  look at the list");
        assert_eq!(exit_of(&anyhow::anyhow!("anything")), Exit::Failed);
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(exit_of(&closed.into()), Exit::Done);
    }

    #[test]
    fn a_check_that_failed_fails_for_those_too_who_stopped_reading() {
        let broken = |kind: std::io::ErrorKind| Err(std::io::Error::from(kind).into());
        for (passed, expected) in [(true, Exit::Done), (false, Exit::CheckFailed)] {
            assert_eq!(checked(passed, Ok(())).unwrap(), expected);
            let closed = checked(passed, broken(std::io::ErrorKind::BrokenPipe));
            assert_eq!(closed.unwrap(), expected);
            let full = checked(passed, broken(std::io::ErrorKind::StorageFull));
            assert_eq!(exit_of(&full.unwrap_err()), Exit::Failed, "nobody knows what it came to");
        }
    }
}
