//! Whether an endpoint takes deliveries. How it is doing (its health) is not here.

coded! {
    /// Whether an endpoint takes deliveries.
    EndpointState {
        /// Deliveries go out.
        Active = 0, "active";
        /// Its owner asked to wait: deliveries are made and held.
        Paused = 1, "paused";
        /// Given up, by a 410 or by an operator: what waits is held, new events make no delivery.
        Disabled = 2, "disabled";
    }
}
