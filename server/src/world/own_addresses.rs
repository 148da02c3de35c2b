//! This host's own addresses. Some look like any other public address, but behind them are our
//! own admin port and the database; so the guard refuses them.

use std::{collections::BTreeSet, io, net::IpAddr};

/// All addresses of all interfaces, loopback included.
pub fn own_addresses() -> io::Result<BTreeSet<IpAddr>> {
    Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_them() {
        assert!(own_addresses().unwrap().iter().any(IpAddr::is_loopback));
    }
}
