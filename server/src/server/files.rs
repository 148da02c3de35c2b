//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below so many a server runs short: 1,024 connections to us (more where more may be open), twice
/// `delivery.concurrency` to receivers, and the database's.
pub const FILES_WANTED: u64 = 4_096;

/// Raises the soft limit, which is often 1,024 for the sake of old programs, to the hard one. Gives
/// what holds then; `None` is no limit.
pub fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current, // as before: no reason not to start
    }
}

/// The hard limit; `None` is no limit.
pub fn hard_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        assert_eq!(raise_limit(), hard_limit());
        assert_eq!(getrlimit(Resource::Nofile).current, hard_limit());
    }
}
