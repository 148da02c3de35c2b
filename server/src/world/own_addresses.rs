//! This host's own addresses. Some look like any other public address, but behind them are our
//! own admin port and the database; so the guard refuses them.

use std::{collections::BTreeSet, io, net::IpAddr};

/// The addresses of all interfaces. Without loopback: the guard's table has it by its own name.
pub fn own_addresses() -> io::Result<BTreeSet<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs()?;
    let addresses = interfaces.iter().map(if_addrs::Interface::ip);
    Ok(addresses.filter(|address| !address.is_loopback()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_can_be_read_and_hold_no_loopback() {
        assert!(!own_addresses().unwrap().iter().any(IpAddr::is_loopback));
    }
}
