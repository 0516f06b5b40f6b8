//! Whether a file lies in memory.

use std::fs::File;

/// Magic numbers of the file systems tmpfs and ramfs, and of huge pages.
const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// Whether the file is gone with the next start of the machine, because its file system has no
/// disk.
pub(crate) fn is_in_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| IN_MEMORY.contains(&(found.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_is_told_from_others() {
        let Ok(in_memory) = tempfile::tempfile_in("/dev/shm") else {
            return println!("skipped: no /dev/shm");
        };
        assert!(is_in_memory(&in_memory));
        assert!(!is_in_memory(&File::open("/proc/self/stat").unwrap()));
    }
}
