use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::*;

fn matches(filter: &Value, payload: &Value) -> bool {
    Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}")).matches(payload)
}

#[test]
fn conditions_mean_what_they_say() {
    let payload = json!({
        "amount": 1000, "currency": "eur", "test": false, "note": null,
        "customer": {"email": "a@example.com", "a/b~c": 1}, "tags": ["new", "vip", 3],
        "items": [{"sku": "X1"}, {"sku": "Y2"}], "": "empty name",
    });
    for (filter, expected, why) in [
        (json!({}), true, "no condition"),
        (json!({"/amount": 1000}), true, "a bare value means equal"),
        (json!({"/amount": 1000.0}), true, "numbers by their worth"),
        (json!({"/amount": "1000"}), false, "a text is no number"),
        (json!({"/note": null}), true, "null is a value"),
        (json!({"/missing": null}), false, "and not the same as missing"),
        (json!({"/tags": ["new", "vip", 3]}), true, "a bare list means equal, too"),
        (json!({"/customer": {"eq": {"a/b~c": 1, "email": "a@example.com"}}}), true, "an object"),
        (json!({"/amount": {"gte": 1000, "lt": 2000}}), true, "all operators must hold"),
        (json!({"/amount": {"gt": 1000}}), false, "greater is not equal"),
        (json!({"/amount": {"lte": 1000}}), true, "at most"),
        (json!({"/amount": {"gt": "0"}}), false, "no order over kinds"),
        (json!({"/currency": {"in": ["usd", "eur"]}}), true, "one of"),
        (json!({"/currency": {"nin": ["usd", "eur"]}}), false, "none of"),
        (json!({"/currency": {"gt": "dkk"}}), true, "texts are in order"),
        (json!({"/missing": {"ne": 1}}), true, "missing is not equal"),
        (json!({"/missing": {"nin": [1]}}), true, "nor one of"),
        (json!({"/missing": {"lt": 1}}), false, "and in no order"),
        (json!({"/missing": {"exists": false}}), true, "it does not exist"),
        (json!({"/note": {"exists": true}}), true, "null exists"),
        (json!({"/customer/email": {"ends_with": "@example.com"}}), true, "a nested place"),
        (json!({"/customer/email": {"starts_with": "b"}}), false, "another beginning"),
        (json!({"/customer/email": {"contains": "@"}}), true, "a part of a text"),
        (json!({"/tags": {"contains": "vip"}}), true, "an element of a list"),
        (json!({"/tags": {"contains": "vi"}}), false, "not a part of an element"),
        (json!({"/tags": {"contains": 3.0}}), true, "a number in a list"),
        (json!({"/amount": {"contains": "1"}}), false, "numbers contain nothing"),
        (json!({"/items/1/sku": "Y2"}), true, "an element by its index"),
        (json!({"/items/01/sku": "Y2"}), false, "no leading zeros (RFC 6901)"),
        (json!({"/items/-": {"exists": true}}), false, "nothing is behind the end"),
        (json!({"/customer/a~1b~0c": 1}), true, "escapes"),
        (json!({"/": "empty name"}), true, "the member with an empty name"),
        (json!({"": {"exists": true}}), true, "the whole payload"),
        (json!({"/amount": 1000, "/test": true}), false, "all members must hold"),
        (json!({"any": [{"/amount": 1}, {"/test": false}]}), true, "one of two"),
        (json!({"all": [{"/amount": 1000}, {"/test": true}]}), false, "both"),
        (json!({"not": {"/test": true}}), true, "the contrary"),
        (json!({"not": {"/amount": 1000, "/test": true}}), true, "not both"),
    ] {
        assert_eq!(matches(&filter, &payload), expected, "{filter}: {why}");
    }
}

#[test]
fn large_integers_are_not_rounded() {
    let filter = Filter::parse(&json!({"/id": {"eq": 9_007_199_254_740_993_u64}})).unwrap();
    assert!(filter.matches_bytes(br#"{"id": 9007199254740993}"#));
    assert!(!filter.matches_bytes(br#"{"id": 9007199254740992}"#));
    assert!(!filter.matches_bytes(b"not JSON"));
    assert!(!filter.matches_bytes("[".repeat(100_000).as_bytes()));
}

#[test]
fn an_error_says_where_and_what_to_write() {
    for (filter, path, part) in [
        (json!([]), "", "an object of conditions"),
        (json!({"amount": 1}), "amount", "write \"/amount\""),
        (json!({"/a~2": 1}), "/a~2", "~0"),
        (json!({"/a~": 1}), "/a~", "~0"),
        (json!({"/a": {}}), "/a", "starts_with"),
        (json!({"/a": {"greater": 1}}), "/a.greater", "gte"),
        (json!({"/a": {"$gt": 1}}), "/a.$gt", "gte"),
        (json!({"/a": {"gt": true}}), "/a.gt", "a number or a text, not true"),
        (json!({"/a": {"gt": null}}), "/a.gt", "a number or a text"),
        (json!({"/a": {"in": "x"}}), "/a.in", "a list"),
        (json!({"/a": {"in": []}}), "/a.in", "at least one"),
        (json!({"/a": {"exists": 1}}), "/a.exists", "true or false, not 1"),
        (json!({"/a": {"starts_with": 1}}), "/a.starts_with", "a text"),
        (json!({"any": []}), "any", "at least one"),
        (json!({"all": {"/a": 1}}), "all", "a list"),
        (json!({"all": [{"/a": 1}, {"/b": {"gte": []}}]}), "all[1]./b.gte", "a number"),
        (json!({"not": [{"/a": 1}]}), "not", "an object"),
        (json!({"not": {"any": [{"b": 1}]}}), "not.any[0].b", "write \"/b\""),
        (json!({"": {"x": 1}}), "\"\".x", "no such operator"),
    ] {
        let error = Filter::parse(&filter).expect_err(&filter.to_string());
        assert_eq!(error.path, path, "{filter}");
        assert!(error.problem.contains(part), "{filter}: {error}");
    }
}

#[test]
fn a_filter_is_bounded() {
    let nested = |depth| (0..depth).fold(json!({"/a": 1}), |inner, _| json!({"not": inner}));
    assert!(Filter::parse(&nested(DEPTH_MAX)).is_ok());
    assert!(Filter::parse(&nested(DEPTH_MAX + 1)).is_err());
    let wide = |count| json!({"any": (0..count).map(|n| json!({"/a": n})).collect::<Vec<_>>()});
    assert!(Filter::parse(&wide(CONDITIONS_MAX)).is_ok());
    assert!(Filter::parse(&wide(CONDITIONS_MAX + 1)).is_err());
    let list = |count| json!({"/a": {"in": (0..count).collect::<Vec<_>>()}});
    assert!(Filter::parse(&list(LIST_MAX)).is_ok());
    assert!(Filter::parse(&list(LIST_MAX + 1)).is_err());
    assert!(Filter::parse(&json!({"/a": "x".repeat(FILTER_BYTES_MAX)})).is_err());
}

#[test]
fn a_setting_of_null_is_no_filter() {
    assert_eq!(Filter::parse_setting(&Value::Null), Ok(None));
    let source = json!({"/b": {"gte": 1.50}, "/a": 1, "any": [{"/c": null}]});
    let filter = Filter::parse_setting(&source).unwrap().unwrap();
    assert_eq!(serde_json::to_value(&filter).unwrap(), source, "as it was given");
    assert_eq!(serde_json::from_value::<Filter>(source).unwrap(), filter);
    assert!(serde_json::from_value::<Filter>(json!({"a": 1})).is_err());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        "[ab/~é]{0,3}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let name = select(vec![
            "",
            "/",
            "/a",
            "/a/0",
            "/~0",
            "~",
            "a",
            "all",
            "any",
            "not",
            "eq",
            "ne",
            "in",
            "nin",
            "gt",
            "lte",
            "exists",
            "starts_with",
            "contains",
        ]);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((name, inner), 0..4)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// No JSON panics, neither as a filter nor as a payload; `not` is the contrary; a filter reads
    /// back as itself.
    #[test]
    fn any_json_is_read_or_refused(source in json_value(), payload in json_value()) {
        if let Ok(filter) = Filter::parse(&source) {
            prop_assert_eq!(&Filter::parse(filter.source()).unwrap(), &filter);
            if let Ok(contrary) = Filter::parse(&json!({"not": source})) {
                prop_assert_ne!(filter.matches(&payload), contrary.matches(&payload));
            }
        }
    }

    /// At every place that exists: exactly one of eq and ne, of in and nin, and of the three ways
    /// two numbers can stand to each other.
    #[test]
    fn operators_are_contraries(value in json_value(), other in json_value(), a: i64, b: f64) {
        let holds = |operator: &str, value: &Value, operand: Value| {
            matches(&json!({"/v": {operator: operand}}), &json!({"v": value}))
        };
        prop_assert!(holds("eq", &value, value.clone()));
        prop_assert_ne!(holds("eq", &value, other.clone()), holds("ne", &value, other.clone()));
        prop_assert_ne!(holds("in", &value, json!([other])), holds("nin", &value, json!([other])));
        let three = ["lt", "eq", "gt"].map(|operator| holds(operator, &json!(a), json!(b)));
        prop_assert_eq!(three.iter().filter(|holds| **holds).count(), 1);
    }
}
