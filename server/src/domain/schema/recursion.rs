//! How deep a payload may be for a schema that refers to itself. Each level of the payload can
//! multiply the work by as many ways as there are back into the cycle: two ways and sixty levels
//! would never end. So the depth is bounded by the work.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::cost::{Cost, in_place, references};

/// Evaluations that one check may come to: about a second at worst.
const WORK_MAX: u64 = 1_000_000;

/// The depth to which a payload may be nested; `None` where the schema sets no bound, as it does
/// not refer to itself more than once.
pub(super) fn depth_max(root: &Value) -> Option<usize> {
    let cost = Cost::new(root);
    let nodes = all(root);
    let cyclic: HashSet<*const Value> = nodes
        .iter()
        .filter(|node| references(node).any(|name| leads_back(&cost, name, node)))
        .map(|node| std::ptr::from_ref(*node))
        .collect();
    let mut counted = HashMap::new();
    let ways = nodes.iter().map(|node| ways(&cost, node, &cyclic, &mut counted)).max()?;
    let branches = u64::try_from(cyclic.len()).unwrap_or(u64::MAX).saturating_mul(ways);
    if branches <= 1 {
        return None;
    }
    // The deepest of which the work is still allowed; a flat object always is.
    let fits = |depth: &u32| branches.checked_pow(*depth).is_some_and(|work| work <= WORK_MAX);
    (1..=20).rev().find(fits).map_or(Some(1), |depth| usize::try_from(depth).ok())
}

/// How deep a value is nested: 0 for a number, 1 for a flat object.
pub(super) fn depth_of(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth_of).max(),
        Value::Object(members) => members.values().map(depth_of).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

fn all(root: &Value) -> Vec<&Value> {
    let (mut found, mut left) = (Vec::new(), vec![root]);
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                found.push(value);
                left.extend(members.values());
            }
            _ => {}
        }
    }
    found
}

/// Whether the schema that `name` means leads, by whatever way, to `node`, which refers to it.
fn leads_back(cost: &Cost<'_>, name: &str, node: &Value) -> bool {
    let mut seen = HashSet::new();
    let mut left: Vec<&Value> = cost.target(name).into_iter().collect();
    while let Some(value) = left.pop() {
        if std::ptr::eq(value, node) {
            return true;
        }
        if !seen.insert(std::ptr::from_ref(value)) {
            continue;
        }
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                left.extend(members.values());
                left.extend(references(value).filter_map(|name| cost.target(name)));
            }
            _ => {}
        }
    }
    false
}

/// Ways into a cycle that apply to the same value as `schema` does, with their multiplicity.
fn ways<'a>(
    cost: &Cost<'a>,
    schema: &'a Value,
    cyclic: &HashSet<*const Value>,
    counted: &mut HashMap<*const Value, u64>,
) -> u64 {
    let place = std::ptr::from_ref(schema);
    if let Some(known) = counted.get(&place) {
        return *known;
    }
    counted.insert(place, 0); // while it is being counted: a cycle in place counts once
    let mut total = u64::from(cyclic.contains(&place));
    for applied in in_place(schema).chain(references(schema).filter_map(|name| cost.target(name))) {
        total = total.saturating_add(ways(cost, applied, cyclic, counted));
    }
    counted.insert(place, total);
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_more_ways_lead_back_the_flatter_a_payload_must_be() {
        let root = || json!({"$ref": "#"});
        for (schema, expected, why) in [
            (json!({"properties": {"a": {"type": "object"}}}), None, "no recursion"),
            (json!({"properties": {"next": root()}}), None, "a list: one way"),
            (json!({"properties": {"left": root(), "right": root()}}), Some(19), "a tree"),
            (json!({"properties": {"a": {"allOf": [root(), root()]}}}), Some(9), "the bomb"),
            (
                json!({"patternProperties": {"^a": root(), "a$": root()}}),
                Some(19),
                "two patterns of one name",
            ),
            (
                json!({"$defs": {
                    "x": {"properties": {"a": {"$ref": "#/$defs/y"}}},
                    "y": {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}]}
                }, "$ref": "#/$defs/x"}),
                Some(6),
                "by another",
            ),
        ] {
            assert_eq!(depth_max(&schema), expected, "{why}");
        }
    }
}
