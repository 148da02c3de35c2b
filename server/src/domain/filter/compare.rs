//! Equality and order of JSON values. Numbers are compared by what they are worth, exactly: an
//! integer never passes through a double, where 2^53 and 2^53 + 1 are one. Only what the parser
//! itself reads as a double, an integer beyond 64 bits or a fraction, is compared as one.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two values are the same; 1 and 1.0 are, and the order of members does not count.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_of_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| equal(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, a)| right.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => left == right,
    }
}

/// The order of two numbers, or of two texts by their code points. Nothing else is in order.
pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Some(order_of_numbers(left, right)),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn order_of_numbers(left: &Number, right: &Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => order_of_whole_and_double(left, double(right)),
        (None, Some(right)) => order_of_whole_and_double(right, double(left)).reverse(),
        (None, None) => double(left).partial_cmp(&double(right)).unwrap_or(Ordering::Equal),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn double(number: &Number) -> f64 {
    number.as_f64().expect("a JSON number is an integer or a double")
}

fn order_of_whole_and_double(whole: i128, double: f64) -> Ordering {
    let floor = double.floor();
    #[expect(clippy::cast_possible_truncation, reason = "no fraction; beyond i128 it saturates")]
    let order = whole.cmp(&(floor as i128));
    if order.is_eq() && floor < double { Ordering::Less } else { order }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_str, json};

    use super::*;

    #[test]
    fn numbers_are_compared_by_what_they_are_worth() {
        for (left, right, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("1", "1e0", Ordering::Equal),
            ("0", "-0.0", Ordering::Equal),
            ("1", "1.5", Ordering::Less),
            ("2", "1.5", Ordering::Greater),
            ("-1", "-1.5", Ordering::Greater),
            ("-2", "-1.5", Ordering::Less),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("18446744073709551615", "18446744073709551614", Ordering::Greater),
            ("18446744073709551615", "18446744073709551616", Ordering::Less),
            ("-9223372036854775808", "-9223372036854775807", Ordering::Less),
            ("-9223372036854775808", "-1e300", Ordering::Greater),
            ("18446744073709551615", "1e300", Ordering::Less),
            ("0.1", "0.2", Ordering::Less),
            ("1e300", "1e301", Ordering::Less),
        ] {
            let (a, b) = (from_str(left).unwrap(), from_str(right).unwrap());
            assert_eq!(order(&a, &b), Some(expected), "{left} and {right}");
            assert_eq!(order(&b, &a), Some(expected.reverse()), "{right} and {left}");
            assert_eq!(equal(&a, &b), expected.is_eq(), "{left} and {right}");
        }
    }

    #[test]
    fn only_numbers_and_texts_are_in_order() {
        assert_eq!(order(&json!("2026-01-02"), &json!("2026-01-10")), Some(Ordering::Less));
        for (left, right) in [
            (json!(1), json!("1")),
            (json!(true), json!(false)),
            (json!(null), json!(0)),
            (json!([1]), json!([2])),
        ] {
            assert_eq!(order(&left, &right), None, "{left} and {right}");
            assert!(!equal(&left, &right), "{left} and {right}");
        }
        assert!(equal(&json!({"a": [1.0], "b": null}), &json!({"b": null, "a": [1]})));
        assert!(!equal(&json!({"a": 1}), &json!({"b": 1})));
    }

    proptest! {
        #[test]
        fn whole_numbers_are_in_their_own_order(left: u64, right: i64, near: i8) {
            let order = |a: &Value, b: &Value| order(a, b).unwrap();
            prop_assert_eq!(order(&json!(left), &json!(right)), i128::from(left).cmp(&right.into()));
            let neighbor = left.saturating_add_signed(near.into());
            prop_assert_eq!(order(&json!(left), &json!(neighbor)), left.cmp(&neighbor));
        }

        /// What is true of three numbers of any kind: if a ≤ b and b ≤ c then a ≤ c.
        #[test]
        fn the_order_is_one(
            numbers in prop::collection::vec(
                prop_oneof![
                    any::<i64>().prop_map(|n| json!(n)),
                    any::<u64>().prop_map(|n| json!(n)),
                    (-1e20..1e20).prop_map(|n: f64| json!(n)),
                    (0_i32..70, -1_i32..=1).prop_map(|(n, d)| json!(2_f64.powi(n) + f64::from(d))),
                    (0_u32..63, -1_i64..=1).prop_map(|(n, d)| json!((1_i64 << n) + d)),
                ],
                3,
            ),
        ) {
            let at_most = |a: usize, b: usize| order(&numbers[a], &numbers[b]).unwrap().is_le();
            prop_assert!(at_most(0, 1) || at_most(1, 0));
            if at_most(0, 1) && at_most(1, 2) {
                prop_assert!(at_most(0, 2), "{numbers:?}");
            }
        }
    }
}
