//! An attempt, as history has it.

coded! {
    /// What an attempt, or an ending without one, did to its delivery.
    Mark {
        /// It stays in the queue.
        Retry = 0, "retry";
        /// It is delivered.
        Delivered = 1, "delivered";
        /// It is dead; the cause says of what.
        Dead = 2, "dead";
        /// Somebody canceled it.
        Canceled = 3, "canceled";
        /// The endpoint's filter did not want it.
        Filtered = 4, "filtered";
        /// Nothing: another had settled it before.
        Late = 5, "late";
    }
}
