//! Questions before something is lost. Asked on a terminal only; a script says `--yes`.

use std::io::{IsTerminal as _, Write as _};

use super::exit::{Exit, Failure};

/// Goes on when `yes` was given, or a person says so.
pub fn confirm(yes: bool, question: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} cannot be asked without a terminal"))
            .hint("give --yes to go on")
            .into());
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, "nothing was done").into())
    }
}
