use proptest::prelude::*;
use serde_json::json;

use super::*;

fn problems(schema: &Value, payload: &str) -> Vec<SchemaProblem> {
    Schema::compile(schema).unwrap().check(payload.as_bytes())
}

#[test]
fn a_schema_that_refers_to_itself_twice_never_runs_for_long() {
    let bomb = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    let schema = Schema::compile(&bomb).unwrap();
    let nested = |levels| format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels));

    assert_eq!(schema.check(nested(8).as_bytes()), []);
    let problems = schema.check(nested(60).as_bytes());

    assert!(problems[0].problem.contains("deeper than 9 levels"), "{problems:?}");
}

/// What is said of a payload whose member `v` breaks `schema`.
#[track_caller]
fn assert_says(schema: &Value, payload: &str, expected: &str) {
    let schema = json!({"properties": {"v": schema}});
    let found = problems(&schema, payload);
    assert_eq!(found.len(), 1, "{payload}: {found:?}");
    assert_eq!(found[0].to_string(), expected, "{schema}");
}

#[test]
fn a_problem_names_its_place_what_is_there_and_what_is_wanted() {
    for (schema, payload, expected) in [
        (json!({"type": "integer"}), r#"{"v": "12"}"#, r#"/v: found "12"; it must be an integer"#),
        (
            json!({"type": ["null", "array"]}),
            r#"{"v": {"a": 1}}"#,
            "/v: found an object of 1 member; it must be null or an array",
        ),
        (
            json!({"type": "boolean"}),
            r#"{"v": [1, 2]}"#,
            "/v: found an array of 2 items; it must be a boolean",
        ),
        (json!({"required": ["a"]}), r#"{"v": {}}"#, r#"/v: the member "a" is missing"#),
        (
            json!({"additionalProperties": false}),
            r#"{"v": {"a": 1}}"#,
            "/v: no members may be in it; leave them out",
        ),
        (
            json!({"properties": {"b": true}, "additionalProperties": false}),
            r#"{"v": {"a": 1, "b": 1}}"#,
            r#"/v: the member "a" may not be there; leave out what is not in the schema"#,
        ),
        (
            json!({"enum": ["eur", "usd"]}),
            r#"{"v": "chf"}"#,
            r#"/v: found "chf"; it must be one of "eur", "usd""#,
        ),
        (json!({"const": 1}), r#"{"v": null}"#, "/v: found null; it must be 1"),
        (json!({"minimum": 0}), r#"{"v": -1}"#, "/v: found -1; it must be at least 0"),
        (json!({"exclusiveMaximum": 5}), r#"{"v": 5}"#, "/v: found 5; it must be less than 5"),
        (
            json!({"multipleOf": 0.5}),
            r#"{"v": 0.7}"#,
            "/v: found 0.7; it must be a multiple of 0.5",
        ),
    ] {
        assert_says(&schema, payload, expected);
    }
}

#[test]
fn so_does_a_problem_of_a_whole() {
    let long = "x".repeat(2_000);
    for (schema, payload, expected) in [
        (
            json!({"maxLength": 2}),
            r#"{"v": "abc"}"#,
            r#"/v: found "abc"; it must be at most 2 characters long"#,
        ),
        (
            json!({"minItems": 1}),
            r#"{"v": []}"#,
            "/v: found an array of 0 items; it must be an array of at least 1 item",
        ),
        (
            json!({"uniqueItems": true}),
            r#"{"v": [1, 1]}"#,
            "/v: found an array of 2 items; it must be an array in which no item is there twice",
        ),
        (
            json!({"pattern": "^[A-Z]+$"}),
            r#"{"v": "ab"}"#,
            r#"/v: found "ab"; it must be a string that matches ^[A-Z]+$"#,
        ),
        (
            json!({"not": {}}),
            r#"{"v": 1}"#,
            "/v: found 1; it must be anything but what the schema excludes by `not`",
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            r#"{"v": "1"}"#,
            r#"/v: found "1"; it must be an integer or null"#,
        ),
        (
            json!({"oneOf": [{"required": ["a"]}, {"properties": {"b": {"type": "null"}}}]}),
            r#"{"v": {"b": 1}}"#,
            "/v: found an object of 1 member; it must be what one of the 2 schemas of `oneOf` \
             describes (the closest says: /v/b: found 1; it must be null)",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            r#"{"v": {"ab": 1}}"#,
            r#"/v: the name of a member is wrong: found "ab"; it must be at most 1 character long"#,
        ),
        (json!(false), r#"{"v": 1}"#, "/v: found 1; nothing may be here, leave it out"),
        (
            json!({"type": "null"}),
            &format!(r#"{{"v": "{long}"}}"#),
            &format!(
                "/v: found \"{}…\", a string of 2000 characters; it must be null",
                "x".repeat(60)
            ),
        ),
        (
            json!({"enum": (0..100).collect::<Vec<_>>()}),
            r#"{"v": -1}"#,
            "/v: found -1; it must be one of 0, 1, 2, 3, 4, 5, 6, 7 and 92 more",
        ),
    ] {
        assert_says(&schema, payload, expected);
    }
}

#[test]
fn what_is_no_json_breaks_every_schema() {
    for payload in ["{", "", "\u{feff}{}", r#""\ud800""#, &"[".repeat(200)] {
        let found = problems(&json!({}), payload);
        assert!(found[0].to_string().starts_with("the schema wants JSON"), "{found:?}");
    }
}

#[test]
fn a_name_in_a_payload_is_cut_too_and_cannot_pass_for_a_line() {
    let payload = json!({ format!("a\n{}", "x".repeat(100_000)): 1 }).to_string();
    let found = problems(&json!({"additionalProperties": {"type": "null"}}), &payload);
    assert!(found[0].path.chars().count() <= 201, "{}", found[0].path.len());
    assert!(!found[0].to_string().contains('\n'));
    let found = problems(&json!({"properties": {}, "additionalProperties": false}), &payload);
    assert!(found[0].problem.len() < 200, "{}", found[0]);
}

#[test]
fn a_schema_that_cannot_be_applied_is_refused_with_its_place_and_a_remedy() {
    for (schema, path, part) in [
        (json!({"type": "text"}), "/type", r#"write "array", "boolean""#),
        (
            json!({"properties": {"a": {"minimum": "1"}}}),
            "/properties/a/minimum",
            r#"found "1"; it must be a number; mend it"#,
        ),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "/$ref",
            r#""https://example.com/schema.json" cannot be followed; nothing is fetched"#,
        ),
        (json!({"allOf": [{"$ref": "file:///etc/passwd"}]}), "/allOf/0/$ref", "nothing is fetched"),
        (
            json!({"properties": {"a/b": {"$ref": "other.json"}}}),
            "/properties/a~1b/$ref",
            "nothing is fetched",
        ),
        (json!({"$ref": "#/$defs/none"}), "/$ref", "refer to a place that is in this schema"),
        (json!({"$ref": "#none"}), "/$ref", "refer to a place that is in this schema"),
        (json!({"$schema": "https://example.com/own"}), "/$schema", "no draft of JSON Schema"),
        (json!({"pattern": "a(?=b)"}), "/pattern", "without look-around"),
        (json!({"pattern": "(((a{100}){100}){100}){100}"}), "/pattern", "small repetitions"),
        (
            json!({"patternProperties": {"(?<!a)b": {}}}),
            "/patternProperties/(?<!a)b",
            "without look-around",
        ),
        (json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}), "", "are allowed"),
        (json!([]), "", "a schema is an object"),
    ] {
        let problem = Schema::compile(&schema).expect_err("refused");
        assert_eq!(problem.path, path, "{problem}");
        assert!(problem.problem.contains(part), "{part}: {problem}");
        assert!(problem.problem.chars().count() <= MESSAGE_CHARS_MAX + 1);
    }
}

#[test]
fn older_drafts_and_meta_schemas_need_no_network() {
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({"$schema": draft, "properties": {"s": {"$ref": draft}}});
        assert_eq!(problems(&schema, r#"{"s": {"type": "object"}}"#), [], "{draft}");
        assert_ne!(problems(&schema, r#"{"s": {"type": 1}}"#), [], "{draft}");
    }
}

#[test]
fn problems_are_bounded_in_number_and_length() {
    let schema = json!({"items": {"enum": (0..10_000).collect::<Vec<_>>()}});
    let found = problems(&schema, &json!(vec!["x"; 1_000]).to_string());
    assert_eq!(found.len(), PROBLEMS_MAX + 1);
    assert_eq!(found[PROBLEMS_MAX].to_string(), "and 990 more problems");
    let many = problems(&schema, &json!(vec!["x"; 1_001]).to_string());
    assert_eq!(many[PROBLEMS_MAX].to_string(), "and more than 990 more problems");
    assert!(found.iter().all(|p| p.problem.chars().count() <= MESSAGE_CHARS_MAX + 1));
}

/// Each of these has brought down some validator: cycles, doubling references, patterns that
/// backtrack, deep nesting. The one that does not end shows as a test that does not.
#[test]
fn evil_schemas_and_payloads_end_soon() {
    let doubling: serde_json::Map<_, _> = (0..40)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"anyOf": [next, next]}))
        })
        .chain([("d40".to_owned(), json!({"type": "integer"}))])
        .collect();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let too_deep = "[".repeat(1_000_000);
    let texts = format!("\"{}!\"", "a".repeat(10_000));
    let long = (0..60).fold(json!({"items": {"$ref": "#"}}), |inner, _| json!({"not": inner}));
    for (schema, payload) in [
        (json!({"$ref": "#"}), "{}"),
        (long, deep.as_str()),
        (json!({"$dynamicRef": "#"}), "{}"),
        (json!({"items": {"$ref": "#"}, "type": "array"}), &deep),
        (json!({"type": "array"}), &too_deep),
        (json!({"$defs": doubling, "$ref": "#/$defs/d0"}), "\"x\""),
        (json!({"pattern": "^(a+)+$"}), &texts),
        (json!({"uniqueItems": true}), &json!((0..20_000).collect::<Vec<_>>()).to_string()),
    ] {
        if let Ok(schema) = Schema::compile(&schema) {
            let _ = schema.check(payload.as_bytes());
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(payload: Vec<u8>) {
        let schema = Schema::compile(&json!({"type": "object"})).unwrap();
        prop_assert!(schema.check(&payload).len() <= PROBLEMS_MAX + 1);
    }
}
