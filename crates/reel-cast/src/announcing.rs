//! The announcements of one cast (SAP, RFC 2974).

use crate::description::{Described, describe};
use crate::on_air::OnAir;
use reel_rtp::PacketError;
use reel_rtp::sap::{Announcement, announced_at};
use reel_udp::{FlowId, Pacer, Packets, TooManyFlows, UdpSender};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is announced of a cast, and where.
pub(crate) struct Announcing {
    flow: FlowId,
    /// What was announced last, and by whom.
    last: Option<(String, IpAddr)>,
    /// Whether the log says that it cannot be announced.
    is_told: bool,
}

impl Announcing {
    /// Opens the flow of a cast that is to be announced.
    pub(crate) fn open(
        cast: &OnAir,
        udp: &mut UdpSender,
        pacer: &Pacer,
    ) -> Result<Option<Announcing>, TooManyFlows> {
        if !cast.config.is_announced {
            return Ok(None);
        }
        // The socket has the interface of the cast, which groups of one link need.
        let flow = udp.open(announced_at(cast.config.group.ip()), pacer.clone())?;
        Ok(Some(Announcing { flow, last: None, is_told: false }))
    }

    /// Its flow.
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// Announces the cast. Returns how many bytes that takes.
    pub(crate) fn announce(&mut self, cast: &OnAir, udp: &mut UdpSender) -> usize {
        let described = match describe(cast) {
            Ok(described) => described,
            Err(error) => return self.is_not_announced(cast, &error.to_string()),
        };
        let Described { text, abridged, origin } = described;
        let write = |text: String| Ok((Announcement::new(&text, origin).write()?, text));
        // A long schedule does not fit in one datagram. Receivers get it from its address.
        let written: Result<_, PacketError> = write(text).or_else(|error| abridged.map_or(Err(error), write));
        match written {
            Ok((bytes, text)) => {
                let count = bytes.len();
                self.last = Some((text, origin));
                cast.counts.announcements.fetch_add(1, Ordering::Relaxed);
                self.offer(udp, bytes);
                count
            }
            Err(error) => self.is_not_announced(cast, &error.to_string()),
        }
    }

    /// Takes the announcement back, if there was one.
    pub(crate) fn take_back(&self, udp: &mut UdpSender) {
        let Some((text, source)) = &self.last else { return };
        if let Ok(bytes) = Announcement::deletion(text, *source).write() {
            self.offer(udp, bytes);
        }
    }

    /// Takes over what the kernel says of its flow.
    pub(crate) fn changed(&mut self, cast: &OnAir, udp: &UdpSender) {
        if let Some(fault) = udp.flow(self.flow).and_then(|flow| flow.fault)
            && !self.is_told
        {
            let group = announced_at(cast.config.group.ip());
            tracing::warn!(cast = cast.name, %group, "announcements of a cast are lost: {fault}");
            self.is_told = true;
        }
    }

    fn offer(&self, udp: &mut UdpSender, bytes: Vec<u8>) {
        let packet_bytes = bytes.len();
        // One that has no room is left out; another one follows.
        let _ = udp.offer(self.flow, Packets::framed(Arc::<[u8]>::from(bytes), packet_bytes));
    }

    fn is_not_announced(&mut self, cast: &OnAir, reason: &str) -> usize {
        cast.counts.unannounced.fetch_add(1, Ordering::Relaxed);
        if !self.is_told {
            tracing::warn!(
                cast = cast.name,
                "a cast is not announced: {reason}; receivers get its description from /casts/{}.sdp. A long one is announced \
                 by its address if the server listens where the cast is sent from, or on all addresses",
                cast.name
            );
            self.is_told = true;
        }
        0
    }
}
