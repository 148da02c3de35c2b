//! When two requests of a provider are the same event. What is compared are hashes, of one size
//! whatever a provider calls an id.

use aws_lc_rs::digest::{Context, SHA256};

/// A SHA-256.
pub type Digest = [u8; 32];

coded! {
    /// What a verified request is found to be when it is stored.
    Finding {
        /// An event that was not seen before.
        New = 0, "new";
        /// An event that was: nothing is done again.
        Duplicate = 1, "duplicate";
        /// Another body under the id of an event that was seen.
        Conflict = 2, "conflict";
        /// A signature that came under another id before, where ids are not signed.
        ReplaySuspected = 3, "replay_suspected";
        /// An event that was not seen before, at a source that is paused.
        Held = 4, "held";
    }
}

/// What of a genuine request tells it from others.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The provider's id; `None` where there is none, and each request is its own event.
    pub id: Option<&'a str>,
    /// The type, in the provider's spelling.
    pub event_type: Option<&'a str>,
    /// The signature, where it does not cover the id.
    pub evidence: Option<&'a str>,
    /// Of the body.
    pub body: &'a Digest,
}

impl Identity<'_> {
    /// What makes two requests the same event. Where the id names a thing, and several events of
    /// that thing have it, the type and the body count too.
    pub fn dedup(&self, names_object: bool) -> Option<Digest> {
        let id = self.id?.as_bytes();
        Some(if names_object {
            hash("object", &[id, self.event_type.unwrap_or_default().as_bytes(), self.body])
        } else {
            hash("id", &[id])
        })
    }

    /// What a copy under another id would have in common with this one.
    pub fn evidence(&self) -> Option<Digest> {
        self.id?;
        Some(hash("signature", &[self.evidence?.as_bytes()]))
    }
}

/// The hash of a body.
pub fn hash_of(body: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(body);
    finish(context)
}

/// Each part goes in with its length, so that no two lists of parts are the same bytes.
fn hash(kind: &str, parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in [&[kind.as_bytes()], parts].concat() {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    finish(context)
}

fn finish(context: Context) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity<'a>(id: &'a str, event_type: &'a str, body: &'a Digest) -> Identity<'a> {
        Identity { id: Some(id), event_type: Some(event_type), evidence: Some("sig"), body }
    }

    #[test]
    fn what_makes_two_requests_the_same_event() {
        let bodies = [hash_of(b"1"), hash_of(b"2")];
        let first = identity("a", "t", &bodies[0]);
        for (other, same_event, same_object, why) in [
            (first, true, true, "the same again"),
            (identity("b", "t", &bodies[0]), false, false, "another id"),
            (identity("a", "u", &bodies[0]), true, false, "another type"),
            (identity("a", "t", &bodies[1]), true, false, "another body"),
            (Identity { evidence: None, ..first }, true, true, "the signature is not the id"),
            (Identity { id: None, ..first }, false, false, "no id is like no other"),
        ] {
            assert_eq!(other.dedup(false) == first.dedup(false), same_event, "{why}");
            assert_eq!(other.dedup(true) == first.dedup(true), same_object, "{why}, of objects");
        }
    }

    #[test]
    fn an_id_is_never_taken_for_a_signature_nor_two_parts_for_two_others() {
        let body = hash_of(b"");
        let lone = Identity { evidence: Some("x"), ..identity("x", "", &body) };
        assert_ne!(lone.dedup(false), lone.evidence());
        assert_ne!(lone.dedup(false), lone.dedup(true));
        assert_ne!(identity("ab", "c", &body).dedup(true), identity("a", "bc", &body).dedup(true));
        assert_eq!(
            Identity { id: None, ..lone }.evidence(),
            None,
            "nothing to compare without an id"
        );
    }
}
