//! The clients that reverse proxies name in the fields of a request: `X-Forwarded-For`, and
//! `Forwarded` (RFC 7239). Pure.
//!
//! Each proxy appends what it knows, and a client may have written what precedes that. So names are
//! read from the end, and the reading of one depends on nothing before it.

use std::net::IpAddr;

/// What a request says of the addresses behind its connection. Several fields of one name are
/// joined by commas (RFC 9110, section 5.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardedFor<'a> {
    /// `X-Forwarded-For`: addresses.
    pub x_forwarded_for: Option<&'a str>,
    /// `Forwarded`: elements of pairs. It counts if there is no `X-Forwarded-For`: a proxy that
    /// writes one of the fields passes on the other one, which the client may have written. Most
    /// proxies write `X-Forwarded-For`.
    pub forwarded: Option<&'a str>,
}

impl<'a> ForwardedFor<'a> {
    /// Whether it says anything.
    pub fn is_any(&self) -> bool {
        self.x_forwarded_for.is_some() || self.forwarded.is_some()
    }

    /// The addresses, the last one first; `None` for what is none.
    pub(crate) fn addresses(self) -> impl Iterator<Item = Option<IpAddr>> + 'a {
        let plain = self.x_forwarded_for.into_iter().flat_map(|text| text.rsplit(',')).map(address_of);
        let forwarded = self.forwarded.filter(|_| self.x_forwarded_for.is_none());
        let pairs = forwarded.into_iter().flat_map(|text| from_end(text, b',')).map(address_in);
        plain.chain(pairs)
    }
}

/// The address of the parameter `for` of an element, which has to have exactly one.
fn address_in(element: &str) -> Option<IpAddr> {
    let is_for = |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| is_name_of_client(name));
    let mut found = from_end(element, b';').filter(is_for);
    let (pair, None) = (found.next()?, found.next()) else { return None };
    let (_, value) = pair.split_once('=')?;
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    // `unknown`, and identifiers such as `_proxy`, are no addresses.
    address_of(bare)
}

fn is_name_of_client(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("for")
}

/// The parts of a list, the last one first. What is quoted is not divided. A quote that a client
/// has left open ends before what a proxy has appended.
fn from_end(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let list = rest?;
        let mut is_quoted = false;
        let at = list.bytes().rposition(|byte| {
            is_quoted ^= byte == b'"';
            byte == separator && !is_quoted
        });
        rest = at.map(|at| &list[..at]);
        Some(at.map_or(list, |at| &list[at + 1..]))
    })
}

/// An address as proxies write it: alone, or with a port; one that is valid on one link may name
/// that (RFC 4007, section 11).
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let (address, port) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        // Version 4. An address of version 6 has more colons.
        None if text.matches(':').count() == 1 => text.split_at(text.find(':')?),
        None => (text, ""),
    };
    let is_port = |port: &str| port.starts_with('_') || port.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    let parsed = match address.split_once('%') {
        Some((bare, _link)) => bare.parse().ok().map(IpAddr::V6),
        None => address.parse::<IpAddr>().ok(),
    };
    parsed.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn addresses(forwarded: &str) -> Vec<Option<String>> {
        let said = ForwardedFor { forwarded: Some(forwarded), ..ForwardedFor::default() };
        said.addresses().map(|address| address.map(|address| address.to_string())).collect()
    }

    fn of(text: &str) -> Option<String> {
        address_of(text).map(|address| address.to_string())
    }

    #[test]
    fn addresses_are_written_in_many_ways() {
        for (text, address) in [
            ("192.0.2.7", "192.0.2.7"),
            (" 192.0.2.7:80 ", "192.0.2.7"),
            ("192.0.2.7:_hidden", "192.0.2.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("fe80::7%eth0", "fe80::7"),
            ("[fe80::7%25eth0]:80", "fe80::7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(of(text).as_deref(), Some(address), "{text}");
        }
        for text in [
            "",
            "unknown",
            "_hidden",
            "192.0.2.7%eth0",
            "192.0.2.7:",
            "192.0.2.7:70000",
            "192.0.2.7:80:80",
            "[2001:db8::7",
            "[2001:db8::7]4711",
            "[2001:db8::7]:x",
            "192.0.2.256",
            "example.org",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn elements_of_forwarded_are_read_from_the_last_one_on() {
        let own = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        // The examples of RFC 7239, sections 4 and 6.3.
        assert_eq!(
            addresses("for=192.0.2.43,for=\"[2001:db8:cafe::17]\""),
            own(&["2001:db8:cafe::17", "192.0.2.43"])
        );
        assert_eq!(addresses("for=192.0.2.60;proto=http;by=203.0.113.43"), own(&["192.0.2.60"]));
        assert_eq!(addresses("For=\"[2001:db8:cafe::17]:4711\""), own(&["2001:db8:cafe::17"]));
        assert_eq!(
            addresses("proto=https; FOR = 192.0.2.7 ;host=\"a,b;for=192.0.2.8\""),
            own(&["192.0.2.7"])
        );
        for none in ["for=unknown", "for=_hidden", "proto=http", "", "for", "for=192.0.2.1;for=192.0.2.2"] {
            assert_eq!(addresses(none), [None], "{none}");
        }
        // What a client has written reaches no further.
        for forged in ["for=\"", "host=\"x, for=192.0.2.9;", "\"\"\"", "for=192.0.2.9;host=\"\\"] {
            let field = format!("{forged}, for=192.0.2.7");
            assert_eq!(addresses(&field).first(), Some(&Some("192.0.2.7".to_owned())), "{field}");
        }
    }

    #[test]
    fn the_field_that_most_proxies_write_counts_before_the_other_one() {
        let both = ForwardedFor { x_forwarded_for: Some("192.0.2.7"), forwarded: Some("for=192.0.2.9") };
        let first = both.addresses().next().flatten();
        assert_eq!((first, both.is_any()), (Some(IpAddr::from([192, 0, 2, 7])), true));
        assert!(!ForwardedFor::default().is_any());
        assert_eq!(ForwardedFor::default().addresses().count(), 0);
    }

    proptest! {
        #[test]
        fn what_a_proxy_appends_is_read_whatever_precedes_it(written in ".{0,80}", quoted in any::<bool>()) {
            let own = if quoted { "for=\"[2001:db8::7]:80\"" } else { "proto=https;for=\"[2001:db8::7]\"" };
            let found = addresses(&format!("{written},{own}"));
            prop_assert_eq!(found[0].as_deref(), Some("2001:db8::7"));
        }

        #[test]
        fn addresses_with_their_ports_are_read(bits in any::<u128>(), port in any::<u16>(), is_short in any::<bool>()) {
            let address = if is_short { IpAddr::from((bits as u32).to_be_bytes()) } else { IpAddr::from(bits.to_be_bytes()) };
            let text = SocketAddr::new(address, port).to_string();
            prop_assert_eq!(address_of(&text), Some(address.to_canonical()));
            let field = format!("for=\"{text}\"");
            prop_assert_eq!(addresses(&field), vec![Some(address.to_canonical().to_string())]);
        }
    }
}
