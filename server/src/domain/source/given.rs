//! A source as a table of the settings file gives it, whole.

use super::{SourceSettings, Token};
use crate::domain::{limits::SECRETS_MAX, problem::Problem, tenant::TenantId};

/// A source with all that belongs to it. `Debug` shows no secret.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenSource {
    /// Whose it is.
    pub tenant: TenantId,
    /// What is set, the verify token too.
    pub settings: SourceSettings,
    /// As the provider shows them. None: they are added otherwise.
    pub secrets: Vec<Token>,
}

impl SourceSettings {
    /// What is wrong with secrets that are to be live together, each by its place.
    pub fn secret_problems(&self, texts: &[impl AsRef<str>]) -> Vec<Problem> {
        if texts.len() > SECRETS_MAX {
            let problem = format!(
                "there are {}; give those that are live, at most {SECRETS_MAX}",
                texts.len()
            );
            return vec![Problem::new("secrets", problem)];
        }
        let mut problems = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let text = text.as_ref();
            match self.verifier(&[text]) {
                Ok(_) if texts[..index].iter().any(|other| other.as_ref() == text) => {
                    let problem = "it is given twice; give it once";
                    problems.push(Problem::new(format!("secrets[{index}]"), problem));
                }
                Ok(_) => {}
                Err(problem) if problem.field == "secrets" => {
                    problems.push(Problem::new(format!("secrets[{index}]"), problem.problem));
                }
                Err(problem) => return vec![problem],
            }
        }
        problems
    }
}
