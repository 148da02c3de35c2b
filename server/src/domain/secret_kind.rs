//! The two kinds of signatures that a secret can make. The secrets themselves are in the
//! `snaphook-signature` crate, sealed in the store.

coded! {
    /// What a secret signs with.
    SecretKind {
        /// HMAC-SHA256, shared with the receiver: `whsec_…`, signature `v1`.
        Hmac = 0, "hmac";
        /// Ed25519, of which the receiver has the public half only: `whsk_…`, signature `v1a`.
        Ed25519 = 1, "ed25519";
    }
}
