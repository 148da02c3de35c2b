//! What the operator declared of an event type, and whether an event may pass by it. One rule for
//! every door: HTTP asks before it takes an event, the engine asks before the first attempt of one
//! that came by SQL or from a provider, and of each redelivery; all give the same sentences.
//! docs/decisions/0009 has the reasons.

use std::sync::Arc;

use super::{problem::Problem, schema::Schema};

/// Versions that a sentence lists.
const VERSIONS_SHOWN: usize = 10;

/// What is declared of one type, as far as one version of it is concerned.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Whether it is out of use.
    pub archived: bool,
    /// The versions that have a schema; `""` is for events that name none.
    pub versions: Vec<String>,
    /// The schema of the version that was asked for. `None` where that version has none, or one
    /// that does not compile: no emitter can mend that.
    pub schema: Option<Arc<Schema>>,
}

/// What is asked of an event.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its type.
    pub event_type: &'a str,
    /// Its version, if it names one.
    pub version: Option<&'a str>,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// All that keeps an event out, field by field; nothing if it may pass. `strict` is the setting
/// `event_types.strict`, which refuses what nobody declared; data is held to the schema of its
/// version either way.
pub fn problems(strict: bool, declared: Option<&Declared>, event: Asked<'_>) -> Vec<Problem> {
    let event_type = event.event_type;
    let Some(declared) = declared else {
        let why = format!(
            "{event_type} is not declared, and this server takes declared types only \
             (event_types.strict); declare it with PUT /v1/event-types/{event_type}"
        );
        return if strict { vec![Problem::new("type", why)] } else { Vec::new() };
    };
    if strict && declared.archived {
        let why = format!(
            "{event_type} is archived, and this server takes types in use only \
             (event_types.strict); use another, or set its `archived` to false with \
             PATCH /v1/event-types/{event_type}"
        );
        return vec![Problem::new("type", why)];
    }
    if strict && let Some(why) = undeclared_version(declared, event) {
        return vec![Problem::new("version", why)];
    }
    let schema = declared.schema.iter();
    schema
        .flat_map(|schema| schema.check(event.payload))
        .map(|problem| Problem::new(format!("data{}", problem.path), problem.problem))
        .collect()
}

/// Why a version is not one of those that are declared. A type without any schema takes all.
fn undeclared_version(declared: &Declared, event: Asked<'_>) -> Option<String> {
    let asked = event.version.unwrap_or_default();
    if declared.versions.is_empty() || declared.versions.iter().any(|version| version == asked) {
        return None;
    }
    let named: Vec<&String> =
        declared.versions.iter().filter(|version| !version.is_empty()).collect();
    let mut list: Vec<String> =
        named.iter().take(VERSIONS_SHOWN).map(|version| format!("{version:?}")).collect();
    if named.len() > VERSIONS_SHOWN {
        list.push(format!("{} more", named.len() - VERSIONS_SHOWN));
    }
    let (list, event_type) = (list.join(", "), event.event_type);
    Some(match event.version {
        None => format!(
            "it is missing, and {event_type} is declared by version only; name one of {list}"
        ),
        Some(version) if named.is_empty() => format!(
            "{version:?} is not declared: {event_type} has no versions; leave it out, or declare \
             it with PATCH /v1/event-types/{event_type}"
        ),
        Some(version) => format!(
            "{version:?} is not declared for {event_type}; name one of {list}, or declare it with \
             PATCH /v1/event-types/{event_type}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VALID: &[u8] = br#"{"n": 1}"#;
    const INVALID: &[u8] = br#"{"n": "one"}"#;
    const NO_JSON: &[u8] = b"n = 1";

    /// A type in one of the ways in which it can be declared, looked up for `version`.
    fn declared(kind: &str, schemas: &str, version: Option<&str>) -> Option<Declared> {
        let versions: Vec<String> = match schemas {
            "none" => vec![],
            "default" => vec![String::new()],
            "named" => vec!["1".to_owned(), "2".to_owned()],
            _ => vec![String::new(), "1".to_owned()],
        };
        let wanted = version.unwrap_or_default();
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let found = versions.iter().any(|version| version == wanted);
        let schema = found.then(|| Arc::new(Schema::compile(&schema).unwrap()));
        (kind != "undeclared").then(|| Declared { archived: kind == "archived", versions, schema })
    }

    /// The rule, one row for each case that differs; `*` is any. The first row that fits holds.
    /// Gives the field that is at fault, or `data` where the schema has its say.
    const RULE: &[(&str, &str, &str, &str, &str)] = &[
        // strict, type, schemas, version, what holds
        ("strict", "undeclared", "*", "*", "type"),
        ("strict", "archived", "*", "*", "type"),
        ("strict", "*", "none", "*", "passes"),
        ("strict", "*", "default", "absent", "data"),
        ("strict", "*", "default", "*", "version"),
        ("strict", "*", "named", "1", "data"),
        ("strict", "*", "named", "*", "version"),
        ("strict", "*", "both", "9", "version"),
        ("strict", "*", "both", "*", "data"),
        ("free", "undeclared", "*", "*", "passes"),
        ("free", "*", "none", "*", "passes"),
        ("free", "*", "default", "absent", "data"),
        ("free", "*", "named", "1", "data"),
        ("free", "*", "both", "absent", "data"),
        ("free", "*", "both", "1", "data"),
        ("free", "*", "*", "*", "passes"),
    ];

    fn expected(case: (&str, &str, &str, &str)) -> &'static str {
        let fits = |cell: &str, value| cell == "*" || cell == value;
        let row = RULE.iter().find(|row| {
            fits(row.0, case.0) && fits(row.1, case.1) && fits(row.2, case.2) && fits(row.3, case.3)
        });
        row.expect("every case has a row").4
    }

    #[test]
    fn what_passes_follows_from_what_is_declared_and_from_nothing_else() {
        let mut seen = 0;
        for strict in ["strict", "free"] {
            for kind in ["undeclared", "declared", "archived"] {
                for schemas in ["none", "default", "named", "both"] {
                    for (name, version) in [("absent", None), ("1", Some("1")), ("9", Some("9"))] {
                        for (data, payload) in
                            [("valid", VALID), ("invalid", INVALID), ("no JSON", NO_JSON)]
                        {
                            let declared = declared(kind, schemas, version);
                            let event = Asked { event_type: "order.paid", version, payload };
                            let found = problems(strict == "strict", declared.as_ref(), event);
                            let expected = match expected((strict, kind, schemas, name)) {
                                "passes" => vec![],
                                "data" if data == "valid" => vec![],
                                "data" if data == "invalid" => vec!["data/n"],
                                field => vec![field],
                            };
                            let fields: Vec<_> = found.iter().map(|one| &one.field).collect();
                            assert_eq!(
                                fields, expected,
                                "{strict}, {kind}, {schemas}, version {name}, {data}: {found:?}"
                            );
                            seen += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(seen, 216);
    }

    #[test]
    fn a_refusal_says_what_to_write_instead() {
        let say = |kind: &str, schemas: &str, version| {
            let event = Asked { event_type: "order.paid", version, payload: VALID };
            let found = problems(true, declared(kind, schemas, version).as_ref(), event);
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        for (text, expected) in [
            (say("undeclared", "none", None), "declare it with PUT /v1/event-types/order.paid"),
            (say("archived", "none", None), "order.paid is archived"),
            (say("declared", "named", None), "version: it is missing"),
            (say("declared", "named", None), "name one of \"1\", \"2\""),
            (say("declared", "named", Some("9")), "\"9\" is not declared for order.paid; name"),
            (say("declared", "default", Some("9")), "order.paid has no versions; leave it out"),
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let versions = (0..100).map(|n| n.to_string()).collect();
        let many = Declared { versions, ..Declared::default() };
        let event = Asked { event_type: "a", version: None, payload: VALID };
        let text = problems(true, Some(&many), event)[0].to_string();
        assert!(text.ends_with("\"9\", 90 more"), "{text}");
    }
}
