//! Decides which IP addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of clouds at addresses that look public.
const METADATA: [Ipv4Addr; 1] = [Ipv4Addr::new(168, 63, 129, 16)];

/// Why a tenant must not make us connect to an address; `None` if it is public.
pub fn objection(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => objection_v4(address),
        IpAddr::V6(address) => objection_v6(address),
    }
}

fn objection_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "unspecified",
        (127, ..) => "loopback",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "private",
        (100, 64..=127, _) => "shared by a provider's customers",
        (169, 254, _) => "link-local",
        (224..=239, ..) => "multicast",
        (240..=255, ..)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => "reserved",
        _ if METADATA.contains(&address) => "a cloud's metadata service",
        _ => return None,
    })
}

fn objection_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address == Ipv6Addr::UNSPECIFIED {
        return Some("unspecified");
    }
    if address == Ipv6Addr::LOCALHOST {
        return Some("loopback");
    }
    if let Some(embedded) = embedded_v4(address) {
        return objection_v4(embedded);
    }
    let segments = address.segments();
    Some(match segments {
        [0xfc00..=0xfdff, ..] => "private",
        // Site-local is long gone from the standards and still routed inside some networks.
        [0xfe80..=0xfeff, ..] => "link-local",
        [0xff00..=0xffff, ..] => "multicast",
        // Teredo, which nothing needs to reach, and ranges for documentation, benchmarks and the like.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3ffe | 0x5f00, ..] | [0x3fff, 0..=0x0fff, ..] => "reserved",
        // Only this eighth of the address space has been allocated.
        [0x2000..=0x3fff, ..] => return None,
        _ => "reserved",
    })
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, translated (NAT64) or 6to4. Translation within a
/// network (`64:ff9b:1::/48`) is not covered: where it puts the IPv4 address is up to that network, so all of it is refused.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objection_to(text: &str) -> Option<&'static str> {
        objection(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(objection_to(public), None, "{public}");
        }
    }

    #[test]
    fn other_addresses_are_refused_with_a_reason() {
        for (address, reason) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("100.64.0.1", "shared by a provider's customers"),
            ("100.100.100.200", "shared by a provider's customers"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.255", "loopback"),
            ("168.63.129.16", "a cloud's metadata service"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.192", "reserved"),
            ("192.168.1.1", "private"),
            ("198.19.0.1", "reserved"),
            ("224.0.0.1", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:0:10.0.0.1", "private"),
            ("64:ff9b::10.0.0.1", "private"),
            // Wherever a network puts the IPv4 address within its own translation prefix.
            ("64:ff9b:1::192.168.0.1", "reserved"),
            ("64:ff9b:1::8.8.8.8", "reserved"),
            ("64:ff9b:1:a00:0:100:808:808", "reserved"),
            ("64:ff9b:1:ffff:7f:0:108:808", "reserved"),
            ("2002:7f00:1::", "loopback"),
            ("2001:0:53aa:64c::1", "reserved"),
            ("2001:db8::1", "reserved"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "link-local"),
            ("ff02::1", "multicast"),
            ("4000::1", "reserved"),
        ] {
            assert_eq!(objection_to(address), Some(reason), "{address}");
        }
    }
}
