//! How much media memory a server takes: the sum of its holders.

use reel_cache::limits::READER_STRIPES_MAX;
use reel_play::limits::{LENT_PART, SCRATCH_BUFFERS_PER_CORE, STRIPES_PER_INGEST};
use reel_volume::GeometryFields;
use reel_volume::limits::MAINTENANCE_STRIPES;

use crate::config::Config;

/// Viewers that media memory is sized for unless `arena_bytes` is set: the memory that a machine
/// with other tasks can spare.
const VIEWERS: u64 = 128;

/// Buffers reserved for a viewer if members are rotational: a window of stripes for video with the
/// parity of one, and the stripe that a lost unit of audio is computed from. Titles of low rates
/// need less, and members that are not rotational need a third of it for 5 Mb/s.
const BUFFERS_PER_VIEWER: u64 = ((READER_STRIPES_MAX + 1) * GeometryFields::cmaf(5).data_rows + 2) as u64;

/// The smallest arena: two readers, a writer and a decode of the default geometry.
const BYTES_MIN: u64 = 64 << 20;

/// Bytes of the arena for `config` with so many serve threads of HTTP, on a machine with
/// `memory_bytes`.
pub(crate) fn arena_bytes(config: &Config, serve_threads: u64, memory_bytes: u64) -> u64 {
    if config.arena_bytes.bytes() > 0 {
        return config.arena_bytes.bytes();
    }
    let fields = GeometryFields::cmaf(5);
    let unit_bytes = fields.symbol_bytes * fields.row_symbols * fields.unit_rows;
    // Writers and decodes hold whole stripes, parity included.
    let stripe_bytes = (unit_bytes * (fields.data_rows + fields.parity_rows)) as u64;
    let viewers = VIEWERS * BUFFERS_PER_VIEWER * unit_bytes as u64;
    let writing = (config.upload.ingests_max * STRIPES_PER_INGEST) as u64;
    let decoding = serve_threads + config.other_serve_threads() as u64;
    let sealing =
        if config.tls.listen.is_some() { serve_threads * SCRATCH_BUFFERS_PER_CORE as u64 } else { 0 };
    let maintenance = MAINTENANCE_STRIPES as u64;
    let held = viewers + (writing + decoding + maintenance) * stripe_bytes + sealing * unit_bytes as u64;
    // Plus the buffers that the kernel may be sending from, which are not reserved for any client.
    let sum = if config.zero_copy { held * LENT_PART as u64 / (LENT_PART as u64 - 1) } else { held };
    sum.min(memory_bytes / 4).max(BYTES_MIN)
}

/// Memory of this machine.
pub(crate) fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The unit is 1 on every 64-bit machine; the interface still requires it to be read.
    u64::from(info.mem_unit.max(1)) * info.totalram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    #[test]
    fn a_configured_size_is_used() {
        let config = Config { arena_bytes: Size(7 << 20), ..Config::default() };
        assert_eq!(arena_bytes(&config, 4, 1 << 40), 7 << 20);
    }

    #[test]
    fn the_sum_grows_with_its_holders() {
        let large = 1 << 40;
        let small = arena_bytes(&Config::default(), 1, large);
        assert!(arena_bytes(&Config::default(), 64, large) > small);
        let mut config = Config::default();
        config.upload.ingests_max += 1;
        assert!(arena_bytes(&config, 1, large) > small);
        let plain = arena_bytes(&config, 1, large);
        config.tls.listen_at("127.0.0.1:8443".parse().unwrap());
        assert!(arena_bytes(&config, 1, large) > plain);
    }

    #[test]
    fn small_machines_keep_most_of_their_memory() {
        assert_eq!(arena_bytes(&Config::default(), 4, 1 << 30), 256 << 20);
        assert_eq!(arena_bytes(&Config::default(), 4, 1 << 20), BYTES_MIN);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_bytes() > 1 << 26);
    }
}
