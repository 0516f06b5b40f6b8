//! What is spoken to the port of NFS and is no NFS. The log says so, because who has taken the
//! wrong port sees only that a connection ends.

use crate::limits::SAID_AGAIN_NS;
use std::net::IpAddr;

/// Where HTTP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpPorts {
    /// Without TLS.
    pub plain: u16,
    /// With TLS, if the server speaks it.
    pub tls: Option<u16>,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http,
    Tls,
    Ssh,
    /// Something that begins so.
    Other([u8; 4]),
}

/// What was said of clients that speak something else.
#[derive(Debug, Default)]
pub(crate) struct WrongPort([Said; KINDS]);

/// What was said of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    last_ns: Option<u64>,
    /// Connections since then.
    untold: u64,
}

/// Kinds that are told apart.
const KINDS: usize = 4;

/// How the methods of HTTP begin (RFC 9110, section 9.3; RFC 4918, section 9), and the preface of
/// version 2 (RFC 9113, section 3.4).
const HTTP: [&[u8; 4]; 13] = [
    b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PROP", b"LOCK",
    b"MKCO", b"PRI ",
];

impl Spoken {
    /// What a stream is that begins so. No client of NFS begins so: it would be the mark of a
    /// record of more than 300 MB.
    pub(crate) fn of(first: [u8; 4]) -> Self {
        match &first {
            first if HTTP.contains(&first) => Spoken::Http,
            // A record of a handshake, version 3 (RFC 8446, section 5.1).
            [22, 3, _, _] => Spoken::Tls,
            // RFC 4253, section 4.2.
            b"SSH-" => Spoken::Ssh,
            _ => Spoken::Other(first),
        }
    }

    fn kind(self) -> usize {
        match self {
            Spoken::Http => 0,
            Spoken::Tls => 1,
            Spoken::Ssh => 2,
            Spoken::Other(_) => 3,
        }
    }

    /// What was seen, and what is where.
    fn text(self, http: HttpPorts) -> String {
        let HttpPorts { plain, tls } = http;
        let seen = match self {
            Spoken::Http => "HTTP is spoken to the port of NFS".to_owned(),
            Spoken::Tls => "TLS is spoken to the port of NFS".to_owned(),
            Spoken::Ssh => "SSH is spoken to the port of NFS".to_owned(),
            Spoken::Other([a, b, c, d]) => {
                format!("what begins with {a:02x} {b:02x} {c:02x} {d:02x} is no call of NFS")
            }
        };
        let at = match (self, tls) {
            (Spoken::Tls, Some(tls)) => format!("HTTPS is at port {tls}"),
            (Spoken::Tls, None) => format!("this server speaks no TLS, and HTTP is at port {plain}"),
            (_, Some(tls)) => format!("HTTP is at port {plain}, HTTPS at port {tls}"),
            (_, None) => format!("HTTP is at port {plain}"),
        };
        format!("{seen}, and the connection was closed; {at}")
    }
}

impl WrongPort {
    /// A client has spoken something else. The log says so, unless it said the same a moment ago.
    pub(crate) fn note(&mut self, spoken: Spoken, client: IpAddr, http: HttpPorts, now_ns: u64) {
        let client = client.to_canonical();
        match self.untold(spoken, now_ns) {
            Some(0) => tracing::warn!(%client, "{}", spoken.text(http)),
            Some(more) => tracing::warn!(%client, more, "{}", spoken.text(http)),
            None => {}
        }
    }

    /// How many connections of this kind were not told of since the last line; `None` if there is
    /// no line now.
    fn untold(&mut self, spoken: Spoken, now_ns: u64) -> Option<u64> {
        let said = &mut self.0[spoken.kind()];
        if said.last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) < SAID_AGAIN_NS) {
            said.untold += 1;
            return None;
        }
        said.last_ns = Some(now_ns);
        Some(std::mem::take(&mut said.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECORD_BYTES_MAX;
    use crate::record::Records;

    const PLAIN: HttpPorts = HttpPorts { plain: 8080, tls: None };
    const BOTH: HttpPorts = HttpPorts { plain: 8080, tls: Some(8443) };

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        let begins: [(&[u8], Spoken); 7] = [
            (b"GET / HTTP/1.1\r\n", Spoken::Http),
            (b"PROPFIND /dav/ HTTP/1.1\r\n", Spoken::Http),
            (b"PRI * HTTP/2.0\r\n", Spoken::Http),
            (&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], Spoken::Tls),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Spoken::Ssh),
            (b"\x7f\xff\xff\xff", Spoken::Other([0x7f, 0xff, 0xff, 0xff])),
            (b"RTSP", Spoken::Other(*b"RTSP")),
        ];
        for (begin, spoken) in begins {
            // However it arrives.
            for piece_bytes in 1..=begin.len() {
                let mut records = Records::default();
                let refused = begin.chunks(piece_bytes).any(|piece| records.take(piece).is_err());
                assert!(refused, "{begin:?} is no record");
                assert_eq!(Spoken::of(records.mark()), spoken);
            }
        }
        for first in HTTP {
            assert!(u64::from(u32::from_be_bytes(*first)) > RECORD_BYTES_MAX, "{first:?}");
        }
    }

    #[test]
    fn the_line_says_what_was_seen_and_where_it_belongs() {
        for (spoken, http, said) in [
            (
                Spoken::Http,
                PLAIN,
                "HTTP is spoken to the port of NFS, and the connection was closed; HTTP is at port 8080",
            ),
            (
                Spoken::Http,
                BOTH,
                "HTTP is spoken to the port of NFS, and the connection was closed; HTTP is at port 8080, HTTPS at port 8443",
            ),
            (
                Spoken::Tls,
                BOTH,
                "TLS is spoken to the port of NFS, and the connection was closed; HTTPS is at port 8443",
            ),
            (
                Spoken::Tls,
                PLAIN,
                "TLS is spoken to the port of NFS, and the connection was closed; this server speaks no TLS, and HTTP is at port 8080",
            ),
            (
                Spoken::Other([1, 2, 0xab, 0]),
                PLAIN,
                "what begins with 01 02 ab 00 is no call of NFS, and the connection was closed; HTTP is at port 8080",
            ),
        ] {
            assert_eq!(spoken.text(http), said);
        }
    }

    #[test]
    fn each_kind_is_said_once_a_minute_and_the_others_are_counted() {
        let mut port = WrongPort::default();
        let from_ns = 7_000_000_000;
        assert_eq!(port.untold(Spoken::Http, from_ns), Some(0));
        for connection in 1..1000 {
            assert_eq!(port.untold(Spoken::Http, from_ns + connection), None);
            let other = [connection as u8; 4];
            let first = if connection == 1 { Some(0) } else { None };
            assert_eq!(port.untold(Spoken::Other(other), from_ns + connection), first, "of any bytes");
        }
        assert_eq!(port.untold(Spoken::Tls, from_ns + 1000), Some(0));
        assert_eq!(port.untold(Spoken::Http, from_ns + SAID_AGAIN_NS - 1), None);
        assert_eq!(port.untold(Spoken::Http, from_ns + SAID_AGAIN_NS), Some(1000));
        assert_eq!(port.untold(Spoken::Http, from_ns + SAID_AGAIN_NS + 1), None);
        assert_eq!(port.untold(Spoken::Http, from_ns + 3 * SAID_AGAIN_NS), Some(1));
    }
}
