//! One group of a cast on the thread that sends: its flows, its source and its reports.

use crate::limits::CAST_LATE_NS;
use crate::numbering::{Source, stamp_ticks};
use crate::on_air::OnAir;
use crate::piece::Port;
use reel_media::transport::SYMBOL_PAYLOAD_BYTES;
use reel_rtp::fec::FEC_HEADERS_BYTES;
use reel_rtp::rtcp::{Cname, SenderReport, write_goodbye};
use reel_rtp::sdp::{FEC_PORT_OFFSET, RTCP_PORT_OFFSET};
use reel_rtp::{HEADER_BYTES, NtpTime};
use reel_udp::{FlowId, FlowState, Pacer, Packets, TooManyFlows, UdpSender};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The source of FEC packets (SMPTE ST 2022-1).
const FEC_SSRC: u32 = 0;

/// Bytes of a FEC packet behind its RTP header.
const FEC_PAYLOAD_BYTES: u32 = (FEC_HEADERS_BYTES - HEADER_BYTES + SYMBOL_PAYLOAD_BYTES) as u32;

/// A channel of a cast. A cast of one title to one group has one.
pub(crate) struct Channel {
    pub(crate) source: Source,
    media: FlowId,
    fec: Option<FlowId>,
    rtcp: FlowId,
    fec_rtcp: Option<FlowId>,
    packets: u32,
    payload_bytes: u32,
    fec_packets: u32,
    /// A moment of the clock of the server, and its time stamp.
    stamped: Option<(u64, u32)>,
}

/// Packets that leave together.
pub(crate) struct Train {
    pub(crate) packets: Packets,
    /// When the first of them was due, and its time stamp.
    pub(crate) due_ns: u64,
    pub(crate) stamp: u32,
}

impl AsMut<Source> for Channel {
    fn as_mut(&mut self) -> &mut Source {
        &mut self.source
    }
}

/// Writes a report.
pub(crate) type Write = fn(&SenderReport, &Cname, &mut Vec<u8>);

impl Channel {
    /// Opens the flows of a channel.
    pub(crate) fn open(
        cast: &OnAir,
        channel: usize,
        udp: &mut UdpSender,
        pacer: &Pacer,
    ) -> Result<Channel, TooManyFlows> {
        let mut open = |ports| udp.open(cast.config.port_above(channel, ports), pacer.clone());
        Ok(Channel {
            source: Source::new(cast.identity.ssrc(channel), cast.identity.time_stamp(channel)),
            media: open(0)?,
            fec: cast.fec.map(|_| open(FEC_PORT_OFFSET)).transpose()?,
            rtcp: open(RTCP_PORT_OFFSET)?,
            fec_rtcp: cast.fec.map(|_| open(FEC_PORT_OFFSET + RTCP_PORT_OFFSET)).transpose()?,
            packets: 0,
            payload_bytes: 0,
            fec_packets: 0,
            stamped: None,
        })
    }

    /// Whether anything was sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.stamped.is_some()
    }

    /// Its flows.
    pub(crate) fn flows(&self) -> impl Iterator<Item = FlowId> + use<> {
        [Some(self.media), self.fec, Some(self.rtcp), self.fec_rtcp].into_iter().flatten()
    }

    /// What is known of its flows.
    pub(crate) fn states<'a>(&self, udp: &'a UdpSender) -> impl Iterator<Item = FlowState<'a>> {
        self.flows().filter_map(|flow| udp.flow(flow))
    }

    /// Hands a train to the sender of the thread.
    pub(crate) fn send(&mut self, cast: &OnAir, udp: &mut UdpSender, port: Port, train: Train, now_ns: u64) {
        let Train { packets, due_ns, stamp } = train;
        let count = packets.count() as u64;
        let (flow, sent) = match port {
            Port::Media => {
                self.stamped = Some((due_ns, stamp));
                self.packets = self.packets.wrapping_add(count as u32);
                let bytes = count * SYMBOL_PAYLOAD_BYTES as u64;
                self.payload_bytes = self.payload_bytes.wrapping_add(bytes as u32);
                cast.is_on_air();
                (self.media, &cast.counts.packets)
            }
            Port::Fec(_) => {
                self.fec_packets = self.fec_packets.wrapping_add(count as u32);
                (self.fec.unwrap_or(self.media), &cast.counts.fec_packets)
            }
        };
        sent.fetch_add(count, Ordering::Relaxed);
        if now_ns.saturating_sub(due_ns) > CAST_LATE_NS {
            cast.counts.late.fetch_add(count, Ordering::Relaxed);
        }
        // What the kernel does not take in time is worth nothing later.
        if let Err(packets) = udp.offer(flow, packets) {
            cast.counts.dropped.fetch_add(packets.count() as u64, Ordering::Relaxed);
        }
    }

    /// Sends a report about what was sent, if anything was.
    pub(crate) fn report(&self, cast: &OnAir, udp: &mut UdpSender, cname: &Cname, now_ns: u64, write: Write) {
        let sent = (self.source.ssrc(), self.packets, self.payload_bytes);
        self.say(cast, (udp, self.rtcp), cname, sent, now_ns, write);
    }

    /// Ends its sources. FEC is a session of its own (RFC 3550, section 11), and ffmpeg waits for
    /// the end of both.
    pub(crate) fn say_goodbye(&self, cast: &OnAir, udp: &mut UdpSender, cname: &Cname, now_ns: u64) {
        self.report(cast, udp, cname, now_ns, write_goodbye);
        if let Some(flow) = self.fec_rtcp {
            let sent = (FEC_SSRC, self.fec_packets, self.fec_packets.wrapping_mul(FEC_PAYLOAD_BYTES));
            self.say(cast, (udp, flow), cname, sent, now_ns, write_goodbye);
        }
    }

    fn say(
        &self,
        cast: &OnAir,
        (udp, flow): (&mut UdpSender, FlowId),
        cname: &Cname,
        (ssrc, packets, payload_bytes): (u32, u32, u32),
        now_ns: u64,
        write: Write,
    ) {
        let Some((at_ns, stamp)) = self.stamped else { return };
        let report = SenderReport {
            ssrc,
            // As the time stamps count it, also if the clock of the machine was set.
            time: NtpTime::from_unix_ns(cast.day.unix_ns(now_ns)),
            time_stamp: stamp.wrapping_add(stamp_ticks(now_ns.saturating_sub(at_ns)) as u32),
            packets,
            payload_bytes,
        };
        let mut bytes = Vec::new();
        write(&report, cname, &mut bytes);
        let packet_bytes = bytes.len();
        // A report that has no room is left out.
        let _ = udp.offer(flow, Packets::framed(Arc::<[u8]>::from(bytes), packet_bytes));
    }
}
