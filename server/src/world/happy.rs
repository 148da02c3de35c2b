//! Happy eyeballs (RFC 8305): several addresses, one connection, no long wait for a dead one.

use std::{fmt, future::Future, net::IpAddr, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::timeout;

/// How long an address may stay silent before the next is tried beside it: the recommended
/// "Connection Attempt Delay" of RFC 8305, section 5.
const DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried; a name may have hundreds.
const ADDRESSES_MAX: usize = 16;

/// Every address that was tried, and what came of it.
pub(super) struct Failures<E>(pub(super) Vec<(IpAddr, E)>);

impl<E: fmt::Display> fmt::Display for Failures<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (address, failure)) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{address}: {failure}")?;
        }
        Ok(())
    }
}

/// Dials `addresses` one after the other, the next as soon as one has failed or been silent for
/// 250 ms, and returns the first connection. The others are dropped.
pub(super) async fn race<T, E, F>(
    addresses: &[IpAddr],
    dial: impl Fn(IpAddr) -> F,
) -> Result<T, Failures<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let order = interleave(addresses);
    let mut left = order.into_iter();
    let mut running = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = left.next() {
            let dialed = dial(address);
            running.push(async move { (address, dialed.await) });
        }
        let ended = if left.len() == 0 {
            running.next().await
        } else {
            match timeout(DELAY, running.next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            }
        };
        match ended {
            Some((_, Ok(connection))) => return Ok(connection),
            Some((address, Err(failure))) => failures.push((address, failure)),
            None => return Err(Failures(failures)),
        }
    }
}

/// The families in turn, IPv6 first, each in its own order (RFC 8305, section 4).
fn interleave(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|ip| ip.is_ipv6());
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut order = Vec::with_capacity(addresses.len());
    loop {
        let before = order.len();
        order.extend(v6.next());
        order.extend(v4.next());
        if order.len() == before || order.len() >= ADDRESSES_MAX {
            order.truncate(ADDRESSES_MAX);
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns_and_there_is_an_end() {
        let mixed = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"].map(ip);
        let order = ["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"].map(ip);
        assert_eq!(interleave(&mixed), order);
        assert_eq!(interleave(&[ip("192.0.2.1"); 200]).len(), 16);
        assert!(interleave(&[]).is_empty());
    }

    async fn dial(address: IpAddr) -> Result<IpAddr, &'static str> {
        match address.to_string().as_str() {
            "192.0.2.1" => pending().await,
            "192.0.2.2" => Err("refused"),
            _ => Ok(address),
        }
    }

    #[tokio::test]
    async fn a_silent_address_costs_a_quarter_second_and_a_refusing_one_nothing() {
        for (addresses, expected, delays) in [
            (vec!["192.0.2.1", "192.0.2.3"], Some("192.0.2.3"), 1),
            (vec!["192.0.2.2", "192.0.2.3"], Some("192.0.2.3"), 0),
            (vec!["192.0.2.1", "192.0.2.2", "192.0.2.3"], Some("192.0.2.3"), 1),
            (vec!["192.0.2.2", "192.0.2.2"], None, 0),
        ] {
            let began = Instant::now();
            let addresses: Vec<IpAddr> = addresses.into_iter().map(ip).collect();
            let won = race(&addresses, dial).await.ok();
            assert_eq!(won, expected.map(ip), "{addresses:?}");
            let took = began.elapsed();
            assert!(took >= DELAY * delays && took < DELAY * (delays + 1), "{took:?}");
        }
    }
}
