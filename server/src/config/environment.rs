//! The environment: `SNAPHOOK_` and a key's name in capitals, dots as underscores.

use std::collections::BTreeMap;

use super::{
    keys::{self, KEYS, Key, PREFIX},
    read::{Origin, Written},
};

/// Names the settings' file.
pub const FILE_VARIABLE: &str = "SNAPHOOK_CONFIG";

/// Ours, but no settings of the server: they steer the client commands.
const OTHERS: [&str; 5] =
    [FILE_VARIABLE, "SNAPHOOK_URL", "SNAPHOOK_API_KEY", "SNAPHOOK_TENANT", "SNAPHOOK_SECRET"];

/// What the environment sets, by key. An empty variable is an empty list where a list is asked for;
/// else it is a problem, for a value that got lost on its way must not pass for the default.
pub fn read(
    environment: &[(String, String)],
    problems: &mut Vec<String>,
) -> BTreeMap<&'static str, Written> {
    let mut written = BTreeMap::new();
    for (variable, text) in environment {
        if !variable.starts_with(PREFIX) {
            continue;
        }
        let key = KEYS.iter().find(|key| key.variable() == *variable);
        let is_one = key.map_or(variable == FILE_VARIABLE, |key| !key.is_list());
        if is_one && text.is_empty() {
            problems
                .push(format!("{variable} is empty; unset it for the default, or give a value"));
        } else if let Some(key) = key {
            let origin = Origin::Variable(variable.clone());
            written.insert(key.name, Written::text(key, text, origin));
        } else if !is_of_others(variable) {
            let name = variable.trim_start_matches(PREFIX).to_lowercase();
            // Underscores stand for dots or themselves; the first is a dot in most keys.
            let dotted = name.replacen('_', ".", 1);
            let near = [&name, &dotted].map(|name| keys::meant(name, Key::variable));
            let meant = near.iter().find(|meant| meant.starts_with("did")).unwrap_or(&near[0]);
            problems.push(format!("{variable} is no setting; {meant}"));
        }
    }
    written
}

/// Variables that begin like ours and are not: of the client, of the tests, and those that
/// Kubernetes makes for every service whose name begins with `snaphook` (`SNAPHOOK_SERVICE_HOST`,
/// `SNAPHOOK_API_PORT_8080_TCP_ADDR`): refusing them would stop each pod beside such a service.
fn is_of_others(variable: &str) -> bool {
    let name = variable.trim_start_matches(PREFIX);
    let kubernetes = || {
        let name = format!("_{name}");
        name.contains("_SERVICE_HOST")
            || name.contains("_SERVICE_PORT")
            || name.ends_with("_PORT")
            || name.rsplit_once("_PORT_").is_some_and(|(_, rest)| {
                rest.starts_with(|first: char| first.is_ascii_digit())
                    && (rest.contains("_TCP") || rest.contains("_UDP"))
            })
            || name.ends_with("_TCP_PORT")
            || name.ends_with("_UDP_PORT")
    };
    OTHERS.contains(&variable) || name.starts_with("TEST_") || kubernetes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(variable: &str) -> Option<String> {
        let mut problems = Vec::new();
        read(&[(variable.to_owned(), "x".to_owned())], &mut problems);
        problems.pop()
    }

    #[test]
    fn a_misspelled_variable_is_named_with_what_was_meant() {
        for (variable, expected) in [
            ("SNAPHOOK_DATABSE", "did you mean SNAPHOOK_DATABASE?"),
            ("SNAPHOOK_DELIVERY_TIMEOUTS", "did you mean SNAPHOOK_DELIVERY_TIMEOUT?"),
            ("SNAPHOOK_TIMEOUT", "did you mean SNAPHOOK_DELIVERY_TIMEOUT?"),
            ("SNAPHOOK_COLOUR", "docs/operating.md lists all settings"),
        ] {
            let problem = problem(variable).unwrap();
            assert_eq!(problem, format!("{variable} is no setting; {expected}"));
        }
    }

    #[test]
    fn variables_of_others_are_left_alone() {
        for variable in [
            "PATH",
            "SNAPHOOK_URL",
            "SNAPHOOK_TEST_POSTGRES",
            "SNAPHOOK_SERVICE_HOST",
            "SNAPHOOK_SERVICE_PORT_HTTP",
            "SNAPHOOK_PORT",
            "SNAPHOOK_PORT_8080_TCP_ADDR",
            "SNAPHOOK_API_PORT_443_TCP",
        ] {
            assert_eq!(problem(variable), None, "{variable}");
        }
    }

    #[test]
    fn lists_are_separated_by_commas_and_may_be_empty() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = [pair("SNAPHOOK_ROLES", "api, worker"), pair("SNAPHOOK_GUARD_PORTS", "")];
        let mut problems = Vec::new();
        let written = read(&environment, &mut problems);
        assert_eq!(written["roles"].texts, ["api", "worker"]);
        assert_eq!(written["guard.ports"].texts, [""; 0]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn an_empty_variable_is_named_and_never_passes_for_the_default() {
        let single = KEYS.iter().filter(|key| !key.is_list()).map(Key::variable);
        for variable in single.chain([FILE_VARIABLE.to_owned()]) {
            let mut problems = Vec::new();
            let written = read(&[(variable.clone(), String::new())], &mut problems);
            let told = format!("{variable} is empty; unset it for the default, or give a value");
            assert_eq!((problems, written.len()), (vec![told], 0));
        }
    }
}
