//! Network name spaces, and a cable between two of them. They have no names: each lives as long as
//! a child process that waits for the end of its input, so nothing is left behind however the
//! program ends.

use super::limits::{DEVICE, SERVER, SERVER_BITS, SIDE, VIEWERS, VIEWERS_BITS};
use anyhow::{Context, Result, bail, ensure};
use aya::programs::tc::qdisc_add_clsact;
use rustix::process::Pid;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;

/// A network name space.
pub struct Space {
    holder: Child,
    side: Side,
}

/// A handle of a name space, valid as long as that exists.
pub struct Side(File);

impl Space {
    /// Makes a name space.
    ///
    /// # Errors
    /// Without root or `unshare`.
    pub fn make() -> Result<Self> {
        // A sysfs of its own: the queues of devices are set there.
        let script = "mount -t sysfs none /sys && echo ready && exec cat >/dev/null";
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = holder.context("is unshare installed? (apt install util-linux)")?;
        let mut said = [0; 6];
        let out = holder.stdout.as_mut().context("a child without its output")?;
        if std::io::Read::read_exact(out, &mut said).is_err() {
            let output = holder.wait_with_output()?;
            bail!(
                "no network name space: {}; it needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN)",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let handle = File::open(format!("/proc/{}/ns/net", holder.id()))?;
        Ok(Self { holder, side: Side(handle) })
    }

    /// Runs `act` in the name space: sockets, devices and processes that it makes belong there.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.side.inside(act)
    }

    /// A second handle.
    pub(super) fn side(&self) -> Result<Side> {
        Ok(Side(self.side.0.try_clone()?))
    }

    /// A process in the name space, by which devices are moved there.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Writes below its `/sys`.
    fn sys(&self, path: &str, value: &str) -> Result<()> {
        let path = format!("/proc/{}/root/sys/{path}", self.holder.id());
        fs::write(&path, value).with_context(|| format!("writing {value} to {path}"))
    }
}

impl Side {
    /// Runs `act` in the name space.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        // A thread is moved, never back; so it is one that ends.
        thread::scope(|scope| {
            let moved = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
                    .context("entering a network name space needs root")?;
                act()
            });
            moved.join().expect("what is done in a name space does not panic")
        })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It ends by itself now; only its end is waited for.
        let _ = self.holder.wait();
    }
}

/// The server's side and the far side, with a cable (veth) between them.
pub(super) struct VethPair {
    pub(super) near: Space,
    pub(super) far: Space,
    /// The kernel's threads that receive at the server's side.
    pub(super) receivers: Vec<i32>,
}

impl VethPair {
    /// Makes it. What arrives at the server is taken by a thread of the kernel, which keeps to
    /// `processors`: it takes what has come in one go, as from a card that gathers interrupts, and
    /// its time can be told from that of other work.
    pub(super) fn make(processors: &CpuSet) -> Result<Self> {
        let mut cable = Self { near: Space::make()?, far: Space::make()?, receivers: Vec::new() };
        let far = cable.far.holder.id().to_string();
        let (server, side) = (format!("{SERVER}/{SERVER_BITS}"), format!("{SIDE}/{SERVER_BITS}"));
        let viewers = format!("{VIEWERS}/{VIEWERS_BITS}");
        cable.near.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", &far])?;
            ip(&["addr", "add", &server, "dev", DEVICE])?;
            ip(&["link", "set", DEVICE, "up"])
        })?;
        cable.far.inside(|| {
            ip(&["link", "set", "lo", "up"])?;
            ip(&["addr", "add", &side, "dev", DEVICE])?;
            ip(&["link", "set", DEVICE, "up"])
        })?;
        cable.near.inside(|| {
            for device in [DEVICE, "lo"] {
                qdisc_add_clsact(device).with_context(|| format!("a clsact queue on {device}"))?;
            }
            ip(&["route", "add", &viewers, "via", &SIDE.to_string(), "dev", DEVICE])?;
            // What one run learned of a viewer's path must not help the next.
            fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
            Ok(())
        })?;
        cable.neighbours()?;
        // A cable queues what arrives only if it may be gathered, and what might have been
        // segmented on the far side may not.
        cable.near.inside(|| run("ethtool", &["-K", DEVICE, "gro", "on"]))?;
        cable.far.inside(|| run("ethtool", &["-K", DEVICE, "tso", "off"]))?;
        let others = receivers()?;
        cable.near.sys(&format!("class/net/{DEVICE}/threaded"), "1")?;
        cable.receivers = receivers()?.into_iter().filter(|receiver| !others.contains(receiver)).collect();
        for &receiver in &cable.receivers {
            sched_setaffinity(Pid::from_raw(receiver), processors)
                .context("the processors of the receiving thread")?;
            // An interrupt waits for no process; without this a server's own threads make it lose
            // requests.
            run("chrt", &["--fifo", "--pid", "1", &receiver.to_string()])?;
        }
        Ok(cable)
    }

    /// Sets the congestion control of the way to the viewers. By the route: a name space may not
    /// choose one for all its sockets that the machine does not allow to all.
    pub(super) fn use_congestion_control(&self, name: &str) -> Result<()> {
        let (viewers, side) = (format!("{VIEWERS}/{VIEWERS_BITS}"), SIDE.to_string());
        self.near.inside(|| ip(&["route", "replace", &viewers, "via", &side, "dev", DEVICE, "congctl", name]))
    }

    /// Packets of viewers that found the server's queue full.
    pub(super) fn dropped(&self) -> Result<u64> {
        let path =
            format!("/proc/{}/root/sys/class/net/{DEVICE}/statistics/tx_dropped", self.far.holder.id());
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        text.trim().parse().context("a count that is not a number")
    }

    /// Fixed link addresses: no ARP in a measurement.
    fn neighbours(&self) -> Result<()> {
        let address = |space: &Space| {
            let path = format!("/proc/{}/root/sys/class/net/{DEVICE}/address", space.holder.id());
            fs::read_to_string(&path).with_context(|| format!("reading {path}"))
        };
        for (space, other, ip_address) in [(&self.near, &self.far, SIDE), (&self.far, &self.near, SERVER)] {
            let link = address(other)?;
            let ip_address = ip_address.to_string();
            space.inside(|| {
                ip(&[
                    "neigh",
                    "replace",
                    &ip_address,
                    "lladdr",
                    link.trim(),
                    "dev",
                    DEVICE,
                    "nud",
                    "permanent",
                ])
            })?;
        }
        Ok(())
    }
}

/// The kernel's threads that receive for devices of this name.
fn receivers() -> Result<Vec<i32>> {
    let mut receivers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.starts_with(&format!("napi/{DEVICE}")) {
            receivers.push(pid);
        }
    }
    Ok(receivers)
}

/// Runs `ip` with these words.
///
/// # Errors
/// What `ip` prints if it fails.
pub fn ip(words: &[&str]) -> Result<()> {
    run("ip", words)
}

/// Runs `tc`.
///
/// # Errors
/// Those of `tc`.
pub fn tc(words: &[&str]) -> Result<()> {
    run("tc", words)
}

fn run(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("is {program} installed? (apt install iproute2 ethtool)"))?;
    ensure!(
        output.status.success(),
        "{program} {} failed: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
