use std::io;

use io_uring::{Builder, IoUring, Parameters, Probe, opcode};

use crate::error::RingError;
use crate::limits::BLOCKING_OPS_MAX;

/// The best ring that this kernel offers.
///
/// With one issuer and deferred work (Linux 6.1) the kernel skips locks and sends no interrupts.
/// Cooperative work (5.19) is the next best. The plain ring comes last.
///
/// # Errors
/// If the kernel makes no ring, or lacks a needed feature.
pub(super) fn build(entries: u32, completions: u32) -> Result<IoUring, RingError> {
    let shapes: [fn(&mut Builder); 3] = [
        |b| {
            b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
        },
        |b| {
            b.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        },
        |_| {},
    ];
    let mut refusal = None;
    for shape in shapes {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions).setup_clamp();
        shape(&mut builder);
        match builder.build(entries) {
            Ok(ring) => {
                let ring = check_features(ring)?;
                allow_workers(&ring);
                return Ok(ring);
            }
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => refusal = Some(e),
            Err(e) => return Err(explain(e)),
        }
    }
    Err(explain(refusal.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

/// The driver needs completions that are never lost (5.5) and waiting with a timeout (5.11).
fn check_features(ring: IoUring) -> Result<IoUring, RingError> {
    let has = |p: &Parameters| p.is_feature_nodrop() && p.is_feature_ext_arg();
    if has(ring.params()) { Ok(ring) } else { Err(explain(io::Error::from_raw_os_error(libc::ENOSYS))) }
}

/// Lets the kernel run more operations that block than it does by itself, which is four for each
/// processor. Otherwise files that hang keep all others of the ring waiting.
fn allow_workers(ring: &IoUring) {
    // 0 leaves the limit for sockets and pipes as it is. A kernel before 5.15 has no such limits to
    // set, and keeps its own.
    let _ = ring.submitter().register_iowq_max_workers(&mut [BLOCKING_OPS_MAX, 0]);
}

/// Whether zero-copy sends of messages exist (6.1). The first one shows whether they report how
/// they were sent (6.2).
pub(super) fn sends_zero_copy(ring: &IoUring) -> bool {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(opcode::SendMsgZc::CODE)
}

/// Turns the kernel's error into advice.
fn explain(source: io::Error) -> RingError {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(0);
    let (cause, cure) = advice(source.raw_os_error(), disabled);
    RingError::Uring { cause: format!("{cause} ({source})"), cure, source }
}

fn advice(errno: Option<i32>, disabled: u32) -> (&'static str, &'static str) {
    match errno {
        Some(libc::EPERM | libc::EACCES) if disabled == 2 => {
            ("the sysctl kernel.io_uring_disabled is 2", "set it to 0: sysctl -w kernel.io_uring_disabled=0")
        }
        Some(libc::EPERM | libc::EACCES) if disabled == 1 => (
            "the sysctl kernel.io_uring_disabled is 1 and this process is not in kernel.io_uring_group",
            "set it to 0, or kernel.io_uring_group to a group of this process",
        ),
        Some(libc::EPERM | libc::EACCES) => (
            "a security policy forbids it, probably the container's seccomp profile",
            "allow io_uring_setup, io_uring_enter and io_uring_register in the profile \
             (docker: --security-opt seccomp=PROFILE)",
        ),
        Some(libc::ENOSYS) => (
            "this kernel does not support it, or a seccomp profile hides it",
            "use Linux 5.11 or later, or allow the io_uring system calls in the container's seccomp profile",
        ),
        Some(libc::ENOMEM) => (
            "the kernel has no memory for it, or the locked-memory limit is used up",
            "set LimitMEMLOCK=infinity in the service (ulimit -l unlimited)",
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            ("no descriptor is left", "raise the limit of open files (LimitNOFILE in the service, ulimit -n)")
        }
        _ => ("the kernel refused to make a ring", "look for the reason in the kernel's log"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_switch_that_caused_it() {
        assert!(advice(Some(libc::EPERM), 2).0.contains("io_uring_disabled is 2"));
        assert!(advice(Some(libc::EPERM), 1).1.contains("io_uring_group"));
        assert!(advice(Some(libc::EPERM), 0).0.contains("seccomp"));
        assert!(advice(Some(libc::ENOMEM), 0).1.contains("LimitMEMLOCK"));
        assert!(advice(Some(libc::ENOSYS), 0).1.contains("5.11"));
    }
}
