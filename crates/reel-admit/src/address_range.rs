//! Ranges of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that have a prefix in common (RFC 4632, RFC 4291), or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix_bits: u32,
}

/// A text that is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address such as 192.0.2.7 or a range of addresses such as 192.0.2.0/24")]
pub struct NoAddressRange(String);

impl AddressRange {
    /// Whether it has the address. An IPv4 address that is written as one of IPv6 is the same
    /// address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differing = first.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.prefix_bits
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differing = first.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.prefix_bits
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = NoAddressRange;

    fn from_str(text: &str) -> Result<Self, NoAddressRange> {
        let wrong = || NoAddressRange(text.to_owned());
        let (first, bits) = text.split_once('/').map_or((text, None), |(first, bits)| (first, Some(bits)));
        let first = first.parse::<IpAddr>().map_err(|_| wrong())?.to_canonical();
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max).ok_or_else(wrong)?,
        };
        Ok(Self { first, prefix_bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(range: &str, address: &str) -> bool {
        let range: AddressRange = range.parse().expect("a range");
        range.contains(address.parse().expect("an address"))
    }

    #[test]
    fn a_range_has_the_addresses_with_its_prefix() {
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.6"));
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.9/31", "192.0.2.8") && !has("192.0.2.9/31", "192.0.2.10"));
        assert!(has("0.0.0.0/0", "203.0.113.1") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("2001:db8::/32", "2001:db8:1::9") && !has("2001:db8::/32", "2001:db9::"));
        assert!(has("192.0.2.7", "::ffff:192.0.2.7") && has("::ffff:192.0.2.7", "192.0.2.7"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "/", "proxy", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/-1", "::1/129", "1.2.3/8"] {
            let wrong = text.parse::<AddressRange>().expect_err(text);
            assert!(wrong.to_string().contains("such as 192.0.2.0/24"), "{wrong}");
        }
        assert_eq!(
            "10.0.0.0/8".parse::<AddressRange>().map(|range| range.to_string()),
            Ok("10.0.0.0/8".into())
        );
    }
}
