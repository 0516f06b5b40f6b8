//! Time of the measured network's soft interrupts by the process they interrupted
//! (`interrupts.bpf.c`).
//!
//! A server's packets are acknowledged, and its next ones sent, in soft interrupts that may
//! interrupt any process. The kernel charges their time to the interrupted process. So on a machine
//! with other work, the cost of a server cannot be computed from the times of processes alone.

use crate::bpf;
use anyhow::{Context, Result};
use aya::maps::HashMap;
use aya::programs::TcAttachType::{Egress, Ingress};
use aya::programs::tc::{NlOptions, TcAttachOptions};
use aya::programs::{BtfTracePoint, SchedClassifier};
use aya::{Btf, Ebpf, EbpfLoader};
use std::collections::BTreeMap;

/// The meter; it measures as long as it lives.
pub(crate) struct Interrupts(Ebpf);

impl Interrupts {
    /// For the network of these devices, in the name space of the caller; each must have its clsact
    /// queue.
    ///
    /// # Errors
    /// Without root, clang, or the kernel's types (BTF).
    pub(crate) fn measure(devices: &[&str]) -> Result<Self> {
        let types =
            Btf::from_sys_fs().context("the kernel does not tell its types (CONFIG_DEBUG_INFO_BTF)")?;
        let object = bpf::compile(include_str!("interrupts.bpf.c"), &[])?;
        let mut programs = EbpfLoader::new().load(&object).context("loading the meter of interrupts")?;
        for (name, point) in [("entered", "softirq_entry"), ("left", "softirq_exit")] {
            let program: &mut BtfTracePoint =
                programs.program_mut(name).context("no such program")?.try_into()?;
            program.load(point, &types).context("the kernel refused the meter of interrupts")?;
            program.attach().context("attaching the meter of interrupts")?;
        }
        let mark: &mut SchedClassifier =
            programs.program_mut("mark").context("no such program")?.try_into()?;
        mark.load().context("the kernel refused the meter of interrupts")?;
        for (device, way) in devices.iter().flat_map(|device| [(device, Ingress), (device, Egress)]) {
            let first = NlOptions { priority: 1, ..NlOptions::default() };
            mark.attach_with_options(device, way, TcAttachOptions::Netlink(first))
                .with_context(|| format!("attaching to {device}"))?;
        }
        Ok(Self(programs))
    }

    /// Seconds by process until now; 0 is the idle loop.
    pub(crate) fn seconds(&self) -> Result<BTreeMap<u32, f64>> {
        let spent: HashMap<_, u32, u64> = HashMap::try_from(self.0.map("spent").context("no such map")?)?;
        // An entry may come while they are listed.
        Ok(spent.iter().flatten().map(|(process, ns)| (process, ns as f64 / 1e9)).collect())
    }
}
