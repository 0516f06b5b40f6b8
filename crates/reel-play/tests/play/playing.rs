//! What tests do with the example of a front end beside what a front end does.

use crate::clip::Clip;
use crate::front_end::FrontEnd;
use reel_play::{DeliveryId, DeliveryPolicy, Uplink};
use reel_qos::Class;
use std::sync::Arc;

impl FrontEnd {
    /// The same front end, whose clients are behind a link.
    pub(crate) fn behind(self, uplink: &Arc<Uplink>) -> FrontEnd {
        FrontEnd { engine: self.engine.through(Some(uplink.port())), ..self }
    }

    /// A client downloads a title, without a session.
    pub(crate) fn download(&mut self, client: u64, title: &Clip) -> DeliveryId {
        let policy = DeliveryPolicy::without_deadline(Class::APERIODIC);
        self.begin(client, title.file.body.clone(), 0, policy, None);
        self.delivery(client)
    }

    pub(crate) fn delivery(&self, client: u64) -> DeliveryId {
        self.clients[&client].delivery
    }

    /// Bytes that a client has.
    pub(crate) fn bytes_of(&self, client: u64) -> usize {
        self.clients[&client].has.len()
    }

    /// A client takes no more once it has this many bytes, until it is told to take all.
    pub(crate) fn stop_at(&mut self, client: u64, stops_at: Option<usize>) {
        self.clients.get_mut(&client).expect("it is there").stops_at = stops_at;
    }

    pub(crate) fn is_done(&self, client: u64) -> bool {
        self.clients[&client].is_done
    }

    /// What a client has, when all of it was sent.
    pub(crate) fn play(&mut self, client: u64) -> Vec<u8> {
        self.pump(client);
        for _ in 0..10_000 {
            if self.is_done(client) {
                return std::mem::take(&mut self.clients.get_mut(&client).expect("it is there").has);
            }
            self.turn();
        }
        panic!("nothing moves");
    }
}
