//! How much work a schema can make of one value. References that double at each step (`a` is any
//! of `b` and `b`, `b` any of `c` and `c` …) make a schema of two kilobytes run for years, and
//! long chains of them use up the stack. Counted is what applies to the *same* value; what goes
//! into members and items is bounded by the payload.

use std::collections::HashMap;

use serde_json::Value;

/// Subschemas that may apply to one value, followed through all references.
const APPLIED_MAX: u64 = 4_096;

/// How deep they may be nested. With payloads nested 128 deep, this fits a thread's stack.
const NESTED_MAX: usize = 64;

/// Keywords whose schemas apply to the same value: one, a list of them, or some by name.
const IN_PLACE: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "extends",
];

pub(super) const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// Says what is wrong if the work is without bounds.
pub(super) fn check(root: &Value) -> Result<(), String> {
    let mut cost = Cost::new(root);
    let mut subschemas = vec![root];
    while let Some(value) = subschemas.pop() {
        let applied = cost.of(value, 0)?;
        if applied > APPLIED_MAX {
            return Err(format!(
                "through its references, more than {APPLIED_MAX} schemas apply to one value; \
                 let each part be referred to once"
            ));
        }
        match value {
            Value::Array(values) => subschemas.extend(values),
            Value::Object(members) => subschemas.extend(members.values()),
            _ => {}
        }
    }
    Ok(())
}

/// A schema whose references can be followed.
pub(super) struct Cost<'a> {
    root: &'a Value,
    /// Schemas by their `$id`, `id`, `$anchor` and `$dynamicAnchor`.
    named: HashMap<&'a str, &'a Value>,
    /// What is known of a schema, by its place in memory; `None` while it is being counted.
    known: HashMap<*const Value, Option<u64>>,
}

/// The names that a schema refers to.
pub(super) fn references(schema: &Value) -> impl Iterator<Item = &str> {
    REFERENCES.iter().filter_map(|keyword| schema.get(keyword)?.as_str())
}

/// The schemas inside of one that apply to the same value.
pub(super) fn in_place(schema: &Value) -> impl Iterator<Item = &Value> {
    IN_PLACE.iter().filter_map(|keyword| Some((keyword, schema.get(keyword)?))).flat_map(
        |(keyword, value)| -> Vec<&Value> {
            match value {
                Value::Array(schemas) => schemas.iter().collect(),
                Value::Object(schemas) if keyword.starts_with("depende") => {
                    schemas.values().collect()
                }
                schema => vec![schema],
            }
        },
    )
}

impl<'a> Cost<'a> {
    /// Knows the names of all schemas in `root`.
    pub(super) fn new(root: &'a Value) -> Self {
        let mut cost = Self { root, named: HashMap::new(), known: HashMap::new() };
        cost.find_names(root);
        cost
    }

    fn find_names(&mut self, root: &'a Value) {
        let mut values = vec![root];
        while let Some(value) = values.pop() {
            match value {
                Value::Array(items) => values.extend(items),
                Value::Object(members) => {
                    for keyword in ["$id", "id", "$anchor", "$dynamicAnchor"] {
                        if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                            self.named.insert(name.trim_start_matches('#'), value);
                        }
                    }
                    values.extend(members.values());
                }
                _ => {}
            }
        }
    }

    /// How many schemas apply to a value to which this one does. A cycle counts once, as the
    /// validator stops at it.
    fn of(&mut self, schema: &'a Value, depth: usize) -> Result<u64, String> {
        if !schema.is_object() {
            return Ok(1);
        }
        let place = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&place) {
            return Ok(known.unwrap_or(1));
        }
        if depth > NESTED_MAX {
            return Err(format!(
                "through its references, schemas for one value are nested deeper than {NESTED_MAX}"
            ));
        }
        self.known.insert(place, None);
        let referred: Vec<&Value> =
            references(schema).filter_map(|name| self.target(name)).collect();
        let mut total: u64 = 1;
        for applied in in_place(schema).chain(referred) {
            total = total.saturating_add(self.of(applied, depth + 1)?);
        }
        self.known.insert(place, Some(total));
        Ok(total)
    }

    /// The schema that a reference means, if it is in this document.
    pub(super) fn target(&self, reference: &str) -> Option<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = if document.is_empty() { Some(self.root) } else { self.by_name(document) };
        match fragment {
            "" => document,
            pointer if pointer.starts_with('/') => document.and_then(|root| root.pointer(pointer)),
            name => self.by_name(name),
        }
    }

    /// By its whole name, or by the last part of it: relative names are resolved against others.
    fn by_name(&self, name: &str) -> Option<&'a Value> {
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let by_last = || self.named.iter().find(|(other, _)| last(other) == last(name));
        self.named.get(name).or_else(|| by_last().map(|(_, schema)| schema)).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A chain of definitions, each of which is made from the name of the next.
    fn chain(length: usize, link: impl Fn(String) -> Value) -> Value {
        let mut definitions: serde_json::Map<_, _> =
            (0..length).map(|n| (format!("d{n}"), link(format!("d{}", n + 1)))).collect();
        definitions.insert(format!("d{length}"), json!({"type": "integer"}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    #[test]
    fn doubling_references_are_refused_in_every_guise() {
        let pointer = |next: String| json!({"$ref": format!("#/$defs/{next}")});
        let single = |next: String| json!({"allOf": [pointer(next)]});
        let double = |next: String| json!({"anyOf": [pointer(next.clone()), pointer(next)]});
        let apart = |next: String| json!({"not": pointer(next.clone()), "if": pointer(next)});
        let named = |next: String| {
            let depend =
                json!({"a": {"$ref": format!("#{next}")}, "b": {"$ref": format!("#{next}")}});
            json!({"dependentSchemas": depend})
        };
        assert_eq!(check(&chain(20, single)), Ok(()), "a chain is no bomb");
        assert_eq!(check(&chain(8, double)), Ok(()), "and 256 are no bomb either");
        assert!(check(&chain(20, double)).is_err());
        assert!(check(&chain(20, apart)).is_err());
        assert!(check(&chain(100, single)).unwrap_err().contains("deeper"));
        let mut anchored = chain(20, named);
        for (name, schema) in anchored["$defs"].as_object_mut().unwrap() {
            schema["$anchor"] = json!(name);
        }
        assert!(check(&anchored).is_err(), "by anchors");
        let inside = json!({"$defs": chain(20, double)["$defs"], "items": {"$ref": "#/$defs/d0"}});
        assert!(check(&inside).is_err(), "inside of items");
    }

    #[test]
    fn honest_recursion_is_allowed() {
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert_eq!(check(&tree), Ok(()));
        assert_eq!(check(&json!({"$ref": "#"})), Ok(()));
        assert_eq!(check(&json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})), Ok(()));
        assert_eq!(check(&json!(true)), Ok(()));
    }
}
