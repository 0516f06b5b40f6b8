//! Any text is a description of casts or an error, and what is read is read again when written.

use reel_rtp::limits::{SDP_MEDIA_MAX, SDP_SOURCES_MAX};
use reel_rtp::sdp::{Channel, Description, FecDescription, Session};

/// Reads the bytes as a description.
pub fn sdp(bytes: &[u8]) {
    let Ok(session) = Session::parse(&String::from_utf8_lossy(bytes)) else { return };
    assert!((1..=SDP_MEDIA_MAX).contains(&session.channels.len()), "{}", session.channels.len());
    assert!(!session.name.is_empty() && !session.name.chars().any(char::is_control), "{}", session.name);
    for channel in &session.channels {
        assert!(channel.port > 0 && channel.port < u16::MAX && channel.payload_type < 128);
        assert!(channel.sources.len() <= SDP_SOURCES_MAX);
        assert!(channel.fec.is_none() || channel.fec_fault.is_none(), "FEC that is used has no fault");
        written_again(&session.name, channel);
    }
}

/// Writes what Reel can write of a channel, and reads it.
fn written_again(name: &str, channel: &Channel) {
    let repair_window_us = |us: Option<u32>| us.unwrap_or(0);
    let fec = channel.fec.map(|fec| FecDescription {
        geometry: fec.geometry,
        repair_window_us: repair_window_us(fec.repair_window_us),
    });
    let description = Description {
        name,
        session_id: 0,
        version: 0,
        origin: [127, 0, 0, 1].into(),
        group: channel.address,
        port: channel.port,
        ttl: 1,
        source: channel.sources.first().copied(),
        rate_kbps: 0,
        fec,
        channels: 1,
        url: None,
        attributes: &[],
    };
    let Ok(text) = description.write() else { return };
    let again = Session::parse(&text).expect("what Reel writes can be read").channels.remove(0);
    assert_eq!((again.address, again.port), (channel.address, channel.port));
    assert_eq!(again.fec.map(|fec| fec.geometry), channel.fec.map(|fec| fec.geometry));
}
