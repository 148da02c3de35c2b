//! The address guard's table: which addresses a customer's URL may reach, and why not.
//!
//! Every row of IANA's IPv4 and IPv6 special-purpose registries is here, together with multicast
//! and the addresses of cloud platforms that look like any other. IPv6 is refused by default:
//! only 2000::/3 is global unicast, and parts of it are not. What an operator allows or denies on
//! top of this table is the policy in `world/guard.rs`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

macro_rules! verdicts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $sentence:literal;)*) => {
        /// What the guard says of an address, by name: the ranges of the table first, then the
        /// rules of the operator's policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Verdict { $($(#[$doc])* $variant,)* }

        impl Verdict {
            /// All of them, for documents, metrics and tests.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name, as in the label of `snaphook_guard_refusals_total`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The reason of an attempt that it stopped: `blocked_private` …
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$variant => concat!("blocked_", $name),)* }
            }

            /// What the address is, to follow the word "is" in a sentence for people.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }
    };
}

verdicts! {
    /// May be connected to.
    Public = "public", "a public address";
    /// 0.0.0.0/8 (RFC 791) and `::` (RFC 4291): on Linux they reach the host itself.
    Unspecified = "unspecified", "an address that means this host or this network";
    /// 127.0.0.0/8 (RFC 1122) and `::1` (RFC 4291).
    Loopback = "loopback", "a loopback address, which means this host itself";
    /// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC 1918).
    Private = "private", "an address for private use (RFC 1918)";
    /// 100.64.0.0/10 (RFC 6598).
    Shared = "shared", "an address shared behind carrier NAT (RFC 6598)";
    /// 169.254.0.0/16 (RFC 3927) and fe80::/10 (RFC 4291).
    LinkLocal = "link_local", "a link-local address";
    /// Where cloud platforms tell a machine its secrets, inside ranges of other names.
    Metadata = "metadata", "the metadata service of a cloud platform";
    /// 168.63.129.16: Azure's DNS, DHCP and agent, inside a public range.
    Platform = "platform", "a virtual address of a cloud platform";
    /// 192.0.0.0/24 (RFC 6890) and 2001::/23 (RFC 2928): Teredo, ORCHID and more.
    Protocol = "protocol", "an address of the IETF's protocol assignments";
    /// TEST-NET-1 to -3 (RFC 5737), 2001:db8::/32 (RFC 3849), 3fff::/20 (RFC 9637).
    Documentation = "documentation", "an address for use in documentation only";
    /// 198.18.0.0/15 (RFC 2544).
    Benchmarking = "benchmarking", "an address for benchmarks of network devices (RFC 2544)";
    /// 192.31.196.0/24, 192.175.48.0/24, 2620:4f:8000::/48 (RFC 7534, RFC 7535).
    As112 = "as112", "an address of the AS112 sink, which swallows misdirected DNS";
    /// 192.52.193.0/24 (RFC 7450).
    Amt = "amt", "an anycast address of multicast relays (RFC 7450)";
    /// 192.88.99.0/24 (RFC 7526).
    SixToFourRelay = "6to4_relay", "an anycast address of 6to4 relays, deprecated";
    /// 224.0.0.0/4 (RFC 5771) and ff00::/8 (RFC 4291).
    Multicast = "multicast", "a multicast address";
    /// 240.0.0.0/4 (RFC 1112), the broadcast address with it.
    Reserved = "reserved", "an address reserved for the future, or broadcast";
    /// fc00::/7 (RFC 4193).
    UniqueLocal = "unique_local", "a unique local address, the private use of IPv6 (RFC 4193)";
    /// fec0::/10 (RFC 3879).
    SiteLocal = "site_local", "a site-local address, deprecated";
    /// ::/96 (RFC 4291).
    Ipv4Compatible = "ipv4_compatible", "an IPv4 address in a deprecated IPv6 form";
    /// ::ffff:0:0:0/96 (RFC 7915).
    Ipv4Translated = "ipv4_translated", "an IPv4 address in the form of a stateless translator";
    /// 64:ff9b:1::/48 (RFC 8215).
    Nat64Local = "nat64_local", "an address of a local NAT64 translator (RFC 8215)";
    /// 2002::/16 (RFC 3056).
    SixToFour = "6to4", "a 6to4 address, which carries an IPv4 address inside";
    /// Interface ids 0000:5efe and 0200:5efe (RFC 5214) under any prefix.
    Isatap = "isatap", "an ISATAP address, which carries an IPv4 address inside";
    /// 100::/64 (RFC 6666) and 100:0:0:1::/64 (RFC 9780).
    Discard = "discard", "an address whose packets are discarded";
    /// 5f00::/16 (RFC 9602).
    SegmentRouting = "segment_routing", "an address of segment routing (RFC 9602)";
    /// All other IPv6 outside 2000::/3 (RFC 4291).
    NotGlobal = "not_global", "outside the global unicast range 2000::/3";
    /// Named by `guard.deny`.
    Denied = "denied", "denied by the operator";
    /// One of this host's own addresses.
    Own = "own", "an address of this server itself";
    /// Not within `guard.ports`.
    Port = "port", "a port that the operator does not allow";
    /// Plain HTTP under `guard.https_only`.
    Insecure = "insecure", "plain HTTP, and the operator requires HTTPS";
    /// A name without a public meaning: a single label, `localhost`, `.internal` …
    Name = "name", "a name without a meaning on the public internet";
}

impl Verdict {
    /// The verdict of this stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verdict| verdict.name() == name)
    }

    /// Whether the address belongs to somebody's own network, where an operator may have
    /// services: what `reach: "internal"` opens. Never metadata, multicast or the like.
    pub const fn is_internal(self) -> bool {
        matches!(self, Self::Loopback | Self::Private | Self::Shared | Self::UniqueLocal)
    }

    /// Whether nothing of use to a webhook can be there and a mistake is costly: only a range
    /// that an operator writes down himself opens it, never a name.
    pub const fn is_never(self) -> bool {
        matches!(
            self,
            Self::Unspecified
                | Self::LinkLocal
                | Self::Metadata
                | Self::Platform
                | Self::Multicast
                | Self::Reserved
        )
    }
}

/// First match wins, so the exact addresses stand before the ranges around them.
const V4: &[(Ipv4Addr, u32, Verdict)] = &[
    (Ipv4Addr::new(169, 254, 169, 254), 32, Verdict::Metadata), // AWS, Azure, Google and others
    (Ipv4Addr::new(169, 254, 170, 2), 32, Verdict::Metadata),   // AWS, credentials of containers
    (Ipv4Addr::new(169, 254, 170, 23), 32, Verdict::Metadata),  // AWS, credentials of pods
    (Ipv4Addr::new(100, 100, 100, 200), 32, Verdict::Metadata), // Alibaba
    (Ipv4Addr::new(192, 0, 0, 192), 32, Verdict::Metadata),     // Oracle
    (Ipv4Addr::new(168, 63, 129, 16), 32, Verdict::Platform),
    (Ipv4Addr::UNSPECIFIED, 8, Verdict::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Verdict::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Verdict::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Verdict::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Verdict::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Verdict::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Verdict::Protocol),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Verdict::Documentation),
    (Ipv4Addr::new(192, 31, 196, 0), 24, Verdict::As112),
    (Ipv4Addr::new(192, 52, 193, 0), 24, Verdict::Amt),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Verdict::SixToFourRelay),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Verdict::Private),
    (Ipv4Addr::new(192, 175, 48, 0), 24, Verdict::As112),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Verdict::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Verdict::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Verdict::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Verdict::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Verdict::Reserved),
];

/// First match wins. What matches nothing is public inside 2000::/3 and refused outside.
const V6: &[(Ipv6Addr, u32, Verdict)] = &[
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, Verdict::Metadata), // AWS
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23), 128, Verdict::Metadata),  // AWS, pods
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, Verdict::Metadata),  // Google
    (Ipv6Addr::UNSPECIFIED, 128, Verdict::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, Verdict::Loopback),
    (Ipv6Addr::UNSPECIFIED, 96, Verdict::Ipv4Compatible),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, Verdict::Ipv4Translated),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, Verdict::Nat64Local),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, Verdict::Discard),
    (Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0), 64, Verdict::Discard),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Verdict::Protocol),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Verdict::Documentation),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, Verdict::SixToFour),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, Verdict::As112),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Verdict::Documentation),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, Verdict::SegmentRouting),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Verdict::UniqueLocal),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Verdict::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, Verdict::SiteLocal),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Verdict::Multicast),
];

/// What the table says of `address`, for every address there is. An IPv4 address in its mapped
/// (::ffff:0:0/96) or NAT64 form (64:ff9b::/96, RFC 6052) is judged as the IPv4 address that it
/// is, since that is where the packets go; all other forms that carry one are refused.
pub fn judge(address: IpAddr) -> Verdict {
    match address.to_canonical() {
        IpAddr::V4(v4) => judge_v4(v4),
        IpAddr::V6(v6) => nat64(v6).map_or_else(|| judge_v6(v6), judge_v4),
    }
}

/// The IPv4 address to which a NAT64 translator sends packets for `address`.
pub fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() else { return None };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}

fn judge_v4(address: Ipv4Addr) -> Verdict {
    let differs = |base: Ipv4Addr, bits| (address.to_bits() ^ base.to_bits()) >> (32 - bits) != 0;
    V4.iter().find(|row| !differs(row.0, row.1)).map_or(Verdict::Public, |row| row.2)
}

fn judge_v6(address: Ipv6Addr) -> Verdict {
    let differs = |base: Ipv6Addr, bits| (address.to_bits() ^ base.to_bits()) >> (128 - bits) != 0;
    if let Some((_, _, verdict)) = V6.iter().find(|row| !differs(row.0, row.1)) {
        return *verdict;
    }
    match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Verdict::Isatap,
        [0x2000..=0x3fff, ..] => Verdict::Public,
        _ => Verdict::NotGlobal,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        address: IpAddr,
        public: bool,
        why: String,
    }

    #[test]
    fn every_published_case_has_its_verdict() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../tests/cases/addresses.json")).unwrap();
        assert!(cases.len() > 150, "the cases are there");
        for Case { address, public, why } in cases {
            let verdict = judge(address);
            assert_eq!(verdict == Verdict::Public, public, "{address} is {verdict:?}: {why}");
        }
    }

    #[test]
    fn each_range_has_its_name_from_its_first_address_to_its_last() {
        use Verdict::*;
        for (address, expected, why) in [
            ("0.255.255.255", Unspecified, "last of 0/8"),
            ("1.0.0.0", Public, "first after it"),
            ("172.15.255.255", Public, "last before 172.16/12"),
            ("172.16.0.0", Private, "first of it"),
            ("172.32.0.0", Public, "first after it"),
            ("100.127.255.255", Shared, "last of carrier NAT"),
            ("100.128.0.0", Public, "first after it"),
            ("198.19.255.255", Benchmarking, "last of 198.18/15"),
            ("223.255.255.255", Public, "last before multicast"),
            ("255.255.255.255", Reserved, "broadcast"),
            ("169.254.169.254", Metadata, "cloud metadata"),
            ("169.254.169.253", LinkLocal, "its neighbor"),
            ("fd00:ec2::254", Metadata, "cloud metadata over IPv6"),
            ("::ffff:10.0.0.1", Private, "mapped"),
            ("::ffff:169.254.169.254", Metadata, "mapped metadata"),
            ("::ffff:0:a9fe:a9fe", Ipv4Translated, "stateless translation"),
            ("64:ff9b::808:808", Public, "8.8.8.8 through NAT64"),
            ("64:ff9b::a00:1", Private, "10.0.0.1 through NAT64"),
            ("64:ff9b::1:808:808", NotGlobal, "not the /96 of NAT64"),
            ("::2", Ipv4Compatible, "after loopback"),
            ("2001:1ff::1", Protocol, "last of 2001::/23"),
            ("2001:200::1", Public, "first after it"),
            ("2606:4700::200:5efe:808:808", Isatap, "with the universal bit"),
            ("3fff:1000::", Public, "after documentation"),
            ("4000::", NotGlobal, "after 2000::/3"),
        ] {
            assert_eq!(judge(address.parse().unwrap()), expected, "{address}: {why}");
        }
    }

    #[test]
    fn the_documents_name_every_reason() {
        let text = include_str!("../../../docs/guard.md");
        for verdict in Verdict::ALL.iter().filter(|verdict| **verdict != Verdict::Public) {
            assert!(text.contains(&format!("`{}`", verdict.reason())), "{verdict:?}");
        }
        let rows = V4.iter().map(|row| (row.0.to_string(), row.1, 32));
        for (base, bits, all) in rows.chain(V6.iter().map(|row| (row.0.to_string(), row.1, 128))) {
            let range = if bits == all { base } else { format!("{base}/{bits}") };
            assert!(text.contains(&range), "{range}");
        }
    }

    #[test]
    fn names_are_unique_and_read_back() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_name(verdict.name()), Some(*verdict));
            assert_eq!(verdict.reason().strip_prefix("blocked_"), Some(verdict.name()));
        }
        assert_eq!(Verdict::from_name("unheard of"), None);
    }

    proptest! {
        /// However an IPv4 address is dressed, it gets no better than it would undressed.
        #[test]
        fn no_dress_makes_an_ipv4_address_public(bits: u32, prefix in 0x2000_u16..0x4000) {
            let plain = Ipv4Addr::from_bits(bits);
            let [high, low] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap());
            let verdict = judge(plain.into());
            prop_assert_eq!(judge(plain.to_ipv6_mapped().into()), verdict);
            for dressed in [
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 0x4136, 0xe378, 0, 0, !high, !low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(prefix, 1, 2, 3, 0, 0x5efe, high, low),
            ] {
                let public = judge(dressed.into()) == Verdict::Public;
                prop_assert!(!public || verdict == Verdict::Public, "{dressed}");
            }
        }

        /// The registry's default for IPv6 is no.
        #[test]
        fn outside_2000_3_nothing_but_mapped_and_nat64_is_public(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            let carries_v4 = address.to_ipv4_mapped().is_some() || nat64(address).is_some();
            if judge(address.into()) == Verdict::Public && !carries_v4 {
                prop_assert_eq!(address.segments()[0] & 0xe000, 0x2000);
            }
        }
    }
}
