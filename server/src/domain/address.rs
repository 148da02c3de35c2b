//! The address guard's table: which addresses a customer's URL may reach.

/// What the guard says of an address, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// May be connected to.
    Public,
    /// Private use (RFC 1918, unique local).
    Private,
}

impl Verdict {
    /// The reason of an attempt that it stopped: `blocked_private` …
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Public => "blocked_policy",
            Self::Private => "blocked_private",
        }
    }
}
