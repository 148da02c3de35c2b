//! The type of an event that a source took: its name, and what the provider calls the event.

use crate::domain::event_type::{EVENT_TYPE_CHARS_MAX, EventType};

/// What an event is called of which its provider names no type.
const UNNAMED: &str = "event";

/// The type of an event of the source `name`. `/` and `:` part names as dots do; what else has no
/// place in a type becomes `_`, and empty parts go. What is longer than a type may be loses its
/// end; the provider's own spelling is kept beside it.
pub fn event_type_of(name: &str, provider_type: Option<&str>) -> EventType {
    let spelled: String = provider_type.unwrap_or(UNNAMED).chars().map(fold).collect();
    let parts: Vec<&str> = spelled.split('.').filter(|part| !part.is_empty()).collect();
    let rest = if parts.is_empty() { UNNAMED.to_owned() } else { parts.join(".") };
    let mut whole = format!("{name}.{rest}");
    whole.truncate(EVENT_TYPE_CHARS_MAX); // of ASCII alone by now
    let whole = whole.trim_end_matches('.');
    EventType::parse(whole).expect("a source's name is a part of a type, and so is what follows")
}

fn fold(char: char) -> char {
    match char {
        '/' | ':' | '.' => '.',
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => char,
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_providers_type_becomes_one_of_ours() {
        for (given, expected, why) in [
            (Some("payment_intent.succeeded"), "s.payment_intent.succeeded", "as it is"),
            (Some("orders/create"), "s.orders.create", "Shopify"),
            (Some("story:posted"), "s.story.posted", "a colon"),
            (Some("Invoice Paid"), "s.Invoice_Paid", "a blank"),
            (Some("größe"), "s.gr__e", "no ASCII"),
            (Some("/a//b/"), "s.a.b", "empty parts"),
            (Some(".."), "s.event", "nothing left"),
            (Some(""), "s.event", "nothing there"),
            (None, "s.event", "none given"),
        ] {
            assert_eq!(event_type_of("s", given).as_str(), expected, "{why}");
        }
        let long = event_type_of("s", Some(&"a.".repeat(400)));
        assert!(long.as_str().len() <= EVENT_TYPE_CHARS_MAX && long.as_str().ends_with('a'));
    }

    proptest! {
        #[test]
        fn whatever_a_provider_sends_is_a_type(name in "[A-Za-z0-9_-]{1,64}", given: Option<String>) {
            let made = event_type_of(&name, given.as_deref());
            let beginning = format!("{name}.");
            prop_assert!(made.as_str().starts_with(&beginning));
        }
    }
}
