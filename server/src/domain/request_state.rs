//! Where a request stands that a source kept apart.

coded! {
    /// Where a request stands that became no event by itself.
    RequestState {
        /// It could not be proven; nothing of it was believed.
        Rejected = 0, "rejected";
        /// Genuine, under the id of an event with another body.
        Conflict = 1, "conflict";
        /// Genuine, with a signature that came under another id before, where ids are not signed.
        ReplaySuspected = 2, "replay_suspected";
        /// A person accepted it: it is an event now, and marked as one for ever.
        Accepted = 3, "accepted";
    }
}
