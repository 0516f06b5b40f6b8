//! The program on the cable's near end (`tap.bpf.c`): compiled by clang, loaded and attached here,
//! removed with this value.

use super::limits::{DEVICE, HEAD_BYTES, PIECE_BYTES, RING_BYTES, VIEWERS, VIEWERS_BITS};
use super::space::Space;
use crate::bpf;
use anyhow::{Context, Result};
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::tc::{NlOptions, TcAttachOptions};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::sys::{Stats, enable_stats};
use aya::{Ebpf, EbpfLoader};
use std::os::fd::OwnedFd;

/// Headers of segments, as they would have left the machine.
pub(super) struct Tap {
    pub(super) records: RingBuf<MapData>,
    lost: Array<MapData, u64>,
    /// Keeps the program loaded. It is detached with its device.
    program: Ebpf,
}

impl Tap {
    pub(super) fn attach(near: &Space) -> Result<Self> {
        let object = object()?;
        near.inside(|| {
            let mut program = EbpfLoader::new().load(&object).context("loading the program of the wire")?;
            let classifier: &mut SchedClassifier =
                program.program_mut("wire").context("no program in the object")?.try_into()?;
            classifier.load().context("the kernel refused the program of the wire")?;
            // Not tcx, which Linux has had since 6.6: it cannot take a packet, only pass or drop
            // it. Behind others: it takes what it sees.
            let options = TcAttachOptions::Netlink(NlOptions { priority: 2, ..NlOptions::default() });
            classifier
                .attach_with_options(DEVICE, TcAttachType::Egress, options)
                .context("attaching to the cable")?;
            let records = RingBuf::try_from(program.take_map("records").context("no ring in the object")?)?;
            let lost = Array::try_from(program.take_map("lost").context("no counter in the object")?)?;
            Ok(Self { records, lost, program })
        })
    }

    /// Nanoseconds that the program has run, and how often, while it was measured
    /// ([`Self::watch`]).
    pub(super) fn ran(&self) -> Result<(u64, u64)> {
        let program: &SchedClassifier = self.program.program("wire").context("no program")?.try_into()?;
        let info = program.info()?;
        Ok((info.run_time().as_nanos() as u64, info.run_count()))
    }

    /// The kernel measures its programs as long as this descriptor lives.
    pub(super) fn watch() -> Result<OwnedFd> {
        enable_stats(Stats::RunTime).context("measuring BPF programs")
    }

    /// Segments that found the ring full since the program was attached. To the server they were
    /// lost on the way.
    pub(super) fn lost(&self) -> Result<u64> {
        Ok(self.lost.get(&0, 0)?)
    }
}

fn object() -> Result<Vec<u8>> {
    let mask = u32::MAX << (32 - VIEWERS_BITS);
    bpf::compile(
        include_str!("tap.bpf.c"),
        &[
            format!("HEAD_BYTES={HEAD_BYTES}"),
            format!("PIECE_BYTES={PIECE_BYTES}"),
            format!("RING_BYTES={RING_BYTES}"),
            format!("VIEWERS_MASK={mask}u"),
            format!("VIEWERS_NET={}u", u32::from(VIEWERS) & mask),
        ],
    )
}
