//! Where packets go: three ways out of a network name space of the experiment's own.

use anyhow::{Context, Result};
use reel_report::output_json;
use reel_wire::space::{Space, ip};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    /// A device that takes packets as they come, whole trains with their pages, and drops them, as
    /// a card that sends them would: no program on this machine gets them, so nothing makes the
    /// kernel copy.
    Ifb,
    /// To a receiver in the same name space.
    Loopback,
    /// Over a cable to a receiver in another.
    Veth,
}

/// The name spaces, and what is in them. All of it ends with the value.
pub(super) struct TestNetwork {
    near: Space,
    far: Space,
}

/// A program that receives packets.
struct Receiver(Child);

/// Where receivers listen; there is none behind the ifb.
const PORT: u16 = 7000;

impl Net {
    pub(super) const ALL: [Net; 3] = [Net::Ifb, Net::Loopback, Net::Veth];

    pub(super) fn name(self) -> &'static str {
        match self {
            Net::Ifb => "ifb",
            Net::Loopback => "loopback",
            Net::Veth => "veth",
        }
    }

    /// The sender's address, and the receiver's.
    fn addresses(self) -> (&'static str, &'static str) {
        match self {
            Net::Ifb => ("10.70.1.1", "10.70.1.2"),
            Net::Loopback => ("127.0.0.1", "127.0.0.1"),
            Net::Veth => ("10.70.2.1", "10.70.2.2"),
        }
    }
}

impl TestNetwork {
    pub(super) fn make() -> Result<TestNetwork> {
        let network = TestNetwork { near: Space::make()?, far: Space::make()? };
        let far = network.far.holder().to_string();
        network.near.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["link", "add", "udp0", "type", "ifb"])?;
            ip(&["link", "set", "udp0", "up"])?;
            ip(&["addr", "add", "10.70.1.1/24", "dev", "udp0"])?;
            ip(&["neigh", "add", "10.70.1.2", "lladdr", "02:00:00:00:00:02", "dev", "udp0"])?;
            ip(&["link", "add", "udp1", "type", "veth", "peer", "name", "udp1", "netns", &far])?;
            ip(&["addr", "add", "10.70.2.1/24", "dev", "udp1"])?;
            ip(&["link", "set", "udp1", "up"])
        })?;
        network.far.inside(|| {
            ip(&["addr", "add", "10.70.2.2/24", "dev", "udp1"])?;
            ip(&["link", "set", "udp1", "up"])
        })?;
        Ok(network)
    }

    /// Runs a sender with its addresses, and a receiver where the network has one; returns what the
    /// sender prints.
    pub(super) fn send(&self, net: Net, (sender, trains): (&Path, &Path), words: &[String]) -> Result<Value> {
        let (from, to) = net.addresses();
        let receiver = match net {
            Net::Ifb => None,
            Net::Loopback => Some(self.near.inside(|| Receiver::start(trains, to))?),
            Net::Veth => Some(self.far.inside(|| Receiver::start(trains, to))?),
        };
        let addresses = [format!("from={from}:0"), format!("to={to}:{PORT}")];
        let sent = self.near.inside(|| output_json(Command::new(sender).args(words).args(addresses)));
        drop(receiver);
        sent
    }
}

impl Receiver {
    fn start(trains: &Path, address: &str) -> Result<Receiver> {
        let mut child = Command::new(trains)
            .args(["receive".to_owned(), format!("at={address}:{PORT}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", trains.display()))?;
        let out = child.stdout.as_mut().context("a child without its output")?;
        out.read_exact(&mut [0; 6]).context("the receiver did not start")?;
        Ok(Receiver(child))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself now; only its end is waited for.
        let _ = self.0.wait();
    }
}
