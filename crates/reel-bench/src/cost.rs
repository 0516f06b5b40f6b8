//! What sending cost the machine, however busy others keep it.

use crate::cpu::process_s;
use crate::interrupts::Interrupts;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;

/// Measures cost from one reading to the next.
pub(crate) struct Meter {
    interrupts: Interrupts,
    server: Vec<u32>,
}

/// Seconds of processor time.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// The server's processes, with the interrupts that hit them.
    pub(crate) server_s: f64,
    /// Threads of the kernel: deferred interrupts, work queues, writing back.
    pub(crate) kernel_s: f64,
    /// Soft interrupts of network and disks that hit the idle loop or somebody who has nothing to do with it.
    pub(crate) interrupts_s: f64,
    /// This process: the client.
    pub(crate) client_s: f64,
    /// All others. The more there is of it, the less the rest is worth.
    pub(crate) others_s: f64,
    by_process: BTreeMap<u32, f64>,
}

impl Meter {
    /// For a server of these processes.
    ///
    /// # Errors
    /// See [`Interrupts::measure`].
    pub(crate) fn new(server: Vec<u32>) -> Result<Self> {
        Ok(Self { interrupts: Interrupts::measure()?, server })
    }

    /// What was used until now.
    pub(crate) fn read(&self) -> Result<Cost> {
        let own = std::process::id();
        let mut by_process = self.interrupts.seconds()?;
        let (mut server_s, mut kernel_s, mut others_s) = (0.0, 0.0, 0.0);
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if self.server.contains(&pid) {
                server_s += process_s(&format!("/proc/{pid}/stat"))?;
                by_process.remove(&pid);
            } else if is_kernel(pid) {
                kernel_s += scheduled_s(pid);
                by_process.remove(&pid);
            } else if pid != own {
                // It may have ended since it was listed.
                others_s += process_s(&format!("/proc/{pid}/stat")).unwrap_or(0.0);
            }
        }
        by_process.remove(&own);
        let client_s = process_s("/proc/self/stat")?;
        Ok(Cost { server_s, kernel_s, interrupts_s: 0.0, client_s, others_s, by_process })
    }
}

impl Cost {
    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        let interrupts_s = self.by_process.iter().map(|(process, &seconds)| {
            // A process that is new to the list was hit for the first time.
            seconds - earlier.by_process.get(process).copied().unwrap_or(0.0)
        });
        Self {
            interrupts_s: interrupts_s.sum(),
            server_s: self.server_s - earlier.server_s,
            kernel_s: self.kernel_s - earlier.kernel_s,
            client_s: self.client_s - earlier.client_s,
            others_s: self.others_s - earlier.others_s,
            by_process: BTreeMap::new(),
        }
    }

    /// All that the work cost but the client.
    pub(crate) fn sender_s(&self) -> f64 {
        self.server_s + self.kernel_s + self.interrupts_s
    }
}

fn is_kernel(pid: u32) -> bool {
    // proc(5): the flags are field 9, the list after the name begins with 3; PF_KTHREAD is 0x200000.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & 0x20_0000 != 0)
}

/// Time on a processor, finer than in ticks.
fn scheduled_s(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
