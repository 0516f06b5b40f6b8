//! Captured packets, as tshark reads them.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

/// A packet capture (pcap) of UDP datagrams to one group, over IPv4 without another layer below.
pub struct Capture(Vec<u8>);

impl Default for Capture {
    fn default() -> Capture {
        Capture::new()
    }
}

impl Capture {
    /// Without packets.
    pub fn new() -> Capture {
        const RAW_IP: u32 = 101;
        let mut bytes = Vec::new();
        bytes.extend(0xa1b2_c3d4_u32.to_le_bytes());
        bytes.extend([2, 0, 4, 0]);
        for word in [0, 0, 65_535, RAW_IP] {
            bytes.extend(word.to_le_bytes());
        }
        Capture(bytes)
    }

    /// Adds a datagram to this port.
    pub fn add(&mut self, port: u16, payload: &[u8]) {
        let udp_bytes = 8 + payload.len() as u16;
        let ip_bytes = 20 + udp_bytes;
        for word in [0, 0, u32::from(ip_bytes), u32::from(ip_bytes)] {
            self.0.extend(word.to_le_bytes());
        }
        let mut ip = vec![0x45, 0];
        ip.extend(ip_bytes.to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 16, 17, 0, 0, 192, 0, 2, 1, 239, 1, 1, 1]);
        let words = ip.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
        let sum: u32 = words.sum();
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        self.0.extend(ip);
        // A checksum of zero is none.
        for field in [4000, port, udp_bytes, 0] {
            self.0.extend(field.to_be_bytes());
        }
        self.0.extend(payload);
    }

    /// What tshark reads in a cast, whose media is on `port`: a line for each packet, with `fields`
    /// separated by `|`. `None` if there is no tshark.
    ///
    /// # Panics
    /// If tshark fails.
    pub fn dissect(&self, port: u16, fields: &str) -> Option<Vec<String>> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", "-", "-T", "fields", "-E", "separator=|"]);
        for port in [port, port + 2] {
            command.args(["-d", &format!("udp.port=={port},rtp")]);
        }
        command.args(["-d", &format!("udp.port=={},rtcp", port + 1)]);
        command.args(["-o", "2dparityfec.enable:TRUE", "-o", "ip.check_checksum:TRUE"]);
        for field in fields.split_whitespace() {
            command.args(["-e", field]);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = match child {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            child => child.expect("tshark runs"),
        };
        let mut stdin = child.stdin.take().expect("a pipe");
        let capture = self.0.clone();
        // It prints while it reads.
        let writer = std::thread::spawn(move || stdin.write_all(&capture));
        let output = child.wait_with_output().expect("tshark ends");
        writer.join().expect("no panic").expect("tshark reads all");
        assert!(output.status.success(), "tshark: {}", output.status);
        // From version 4.2 on, flags are words.
        let text = String::from_utf8_lossy(&output.stdout).replace("True", "1").replace("False", "0");
        Some(text.lines().map(str::to_owned).collect())
    }
}
