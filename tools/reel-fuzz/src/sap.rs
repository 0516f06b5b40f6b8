//! Any datagram is an announcement of a cast or none, and what is read is read again when written.

use reel_receive::Guide;
use reel_receive::limits::GUIDE_CASTS_OF_SENDER_MAX;
use reel_rtp::limits::SAP_READ_BYTES_MAX;
use reel_rtp::sap::Announcement;
use std::net::{IpAddr, Ipv4Addr};

/// Reads the bytes as datagrams, each with two bytes of its length in front.
pub fn sap(bytes: &[u8]) {
    let from = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut guide = Guide::new();
    let (mut rest, mut datagrams) = (bytes, 0);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        one(datagram);
        guide.push(datagram, from);
        datagrams += 1;
        rest = behind;
    }
    let (casts, counts) = (guide.casts(), guide.counts());
    assert!(casts.len() <= GUIDE_CASTS_OF_SENDER_MAX);
    assert!(counts.announcements >= casts.len() as u64 + counts.no_room);
    assert!(counts.announcements + counts.deletions + counts.others + counts.malformed <= datagrams);
    for cast in casts {
        assert!(!cast.session.name.chars().any(char::is_control), "{}", cast.session.name);
    }
}

fn one(datagram: &[u8]) {
    let Ok(read) = Announcement::parse(datagram) else { return };
    assert!(datagram.len() <= SAP_READ_BYTES_MAX && read.text.len() < datagram.len());
    let Ok(written) = read.write() else { return };
    // A text that ends with a zero is read without it.
    if !read.text.ends_with('\0') {
        assert_eq!(Announcement::parse(&written).expect("what was written can be read"), read);
    }
}
