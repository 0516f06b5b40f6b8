//! The signatures by which file systems, partition tables and disk arrays are recognised.

/// A signature at a fixed place.
struct Signature {
    what: &'static str,
    place: Place,
    magic: &'static [u8],
}

/// Where a signature is.
#[derive(Clone, Copy)]
enum Place {
    /// Bytes after the start.
    Start(u64),
    /// Bytes before the end.
    End(u64),
    /// md with version 0.90: the last whole 64 KiB.
    Md090,
    /// md with version 1.0: at least 8 KiB before the end, at a multiple of 4 KiB.
    Md10,
}

const fn at(what: &'static str, offset: u64, magic: &'static [u8]) -> Signature {
    Signature { what, place: Place::Start(offset), magic }
}

const fn end(what: &'static str, place: Place, magic: &'static [u8]) -> Signature {
    Signature { what, place, magic }
}

const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_NAME: &str = "a member of a RAID (md)";
const LVM_NAME: &str = "an LVM physical volume";

/// What is known. The first that matches names the content, so a file system comes before the
/// partition table whose signature its first sector also has.
const SIGNATURES: [Signature; 27] = [
    at("an ext file system", 1080, &[0x53, 0xef]),
    at("an XFS file system", 0, b"XFSB"),
    at("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    at("an NTFS file system", 3, b"NTFS    "),
    at("an exFAT file system", 3, b"EXFAT   "),
    at("a FAT file system", 54, b"FAT1"),
    at("a FAT file system", 82, b"FAT32   "),
    at("an ISO 9660 file system", 0x8001, b"CD001"),
    at("swap space", 4086, b"SWAPSPACE2"),
    at("swap space", 4086, b"SWAP-SPACE"),
    at("a LUKS volume", 0, b"LUKS\xba\xbe"),
    at("a LUKS volume", 0x4000, b"SKUL\xba\xbe"),
    at("a bcache device", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    at(LVM_NAME, 0, b"LABELONE"),
    at(LVM_NAME, 512, b"LABELONE"),
    at(LVM_NAME, 1024, b"LABELONE"),
    at(LVM_NAME, 1536, b"LABELONE"),
    at(MD_NAME, 0, MD),
    at(MD_NAME, 4096, MD),
    end(MD_NAME, Place::Md090, MD),
    end(MD_NAME, Place::Md10, MD),
    end("a member of an Intel RAID", Place::End(1024), b"Intel Raid ISM Cfg Sig. "),
    at("a GPT partition table", 512, b"EFI PART"),
    at("a GPT partition table", 4096, b"EFI PART"),
    end("a GPT partition table", Place::End(512), b"EFI PART"),
    end("a GPT partition table", Place::End(4096), b"EFI PART"),
    at("an MBR partition table", 510, &[0x55, 0xaa]),
];

/// A label of ZFS. There are two at the start and two at the end.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
/// The second half of a label is a ring of uberblocks. Which place was written depends on the
/// history of the pool.
const ZFS_RING_AT: u64 = 128 << 10;
const ZFS_UBERBLOCK_BYTES: usize = 1024;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Names what a disk of so many bytes holds: `holds an ext file system`. `read` gives the bytes at
/// a place, or nothing if they cannot be read.
pub(crate) fn named(bytes: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<String> {
    let found = SIGNATURES.iter().find(|signature| signature.is_there(bytes, read));
    let what = found.map(|signature| signature.what);
    what.or_else(|| is_zfs(bytes, read).then_some("a disk of a ZFS pool")).map(|what| format!("holds {what}"))
}

impl Signature {
    fn is_there(&self, bytes: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> bool {
        let offset = match self.place {
            Place::Start(offset) => Some(offset),
            Place::End(before) => bytes.checked_sub(before),
            Place::Md090 => (bytes & !0xffff).checked_sub(0x1_0000),
            Place::Md10 => bytes.checked_sub(0x2000).map(|offset| offset & !0xfff),
        };
        let end = |offset: u64| offset.saturating_add(self.magic.len() as u64);
        offset
            .filter(|&offset| end(offset) <= bytes)
            .and_then(|offset| read(offset, self.magic.len()))
            .is_some_and(|found| found == self.magic)
    }
}

fn is_zfs(bytes: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> bool {
    let aligned = bytes - bytes % ZFS_LABEL_BYTES;
    let labels = [Some(0), Some(ZFS_LABEL_BYTES)]
        .into_iter()
        .chain([2, 1].map(|labels| aligned.checked_sub(labels * ZFS_LABEL_BYTES)));
    labels.flatten().filter(|label| label + ZFS_LABEL_BYTES <= bytes).any(|label| {
        let ring = read(label + ZFS_RING_AT, (ZFS_LABEL_BYTES - ZFS_RING_AT) as usize).unwrap_or_default();
        let mut blocks = ring.chunks_exact(ZFS_UBERBLOCK_BYTES).filter_map(|block| block.first_chunk::<8>());
        blocks.any(|magic| u64::from_le_bytes(*magic) == ZFS_MAGIC || u64::from_be_bytes(*magic) == ZFS_MAGIC)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const DISK: u64 = (8 << 20) + 12_288;

    /// A disk of zeros with these bytes at one place.
    fn with(offset: u64, magic: &[u8]) -> Option<String> {
        let mut disk = vec![0; DISK as usize];
        disk[offset as usize..][..magic.len()].copy_from_slice(magic);
        named(DISK, &|at, bytes| disk.get(at as usize..at as usize + bytes).map(<[u8]>::to_vec))
    }

    #[test]
    fn signatures_are_found_at_both_ends() {
        assert_eq!(with(0, b""), None);
        let holds = |offset, magic: &[u8], what: &str| {
            assert_eq!(with(offset, magic), Some(format!("holds {what}")), "at {offset}");
        };
        holds(0x1_0040, b"_BHRfS_M", "a btrfs file system");
        holds(0, b"XFSB", "an XFS file system");
        holds(3, b"NTFS    \x55", "an NTFS file system");
        holds(0, MD, MD_NAME);
        holds(4096, MD, MD_NAME);
        // The last whole 64 KiB of 8 MiB and 12 KiB begin 64 KiB before the 8 MiB.
        holds((8 << 20) - (64 << 10), MD, MD_NAME);
        holds(DISK - 8192, MD, MD_NAME);
        holds(DISK - 512, b"EFI PART", "a GPT partition table");
        holds(510, &[0x55, 0xaa], "an MBR partition table");
        let little = ZFS_MAGIC.to_le_bytes();
        let ring = ZFS_RING_AT + 5 * ZFS_UBERBLOCK_BYTES as u64;
        for label in [0, 256 << 10, (8 << 20) - (512 << 10), (8 << 20) - (256 << 10)] {
            holds(label + ring, &little, "a disk of a ZFS pool");
        }
        holds(ring, &ZFS_MAGIC.to_be_bytes(), "a disk of a ZFS pool");
    }

    #[test]
    fn a_disk_shorter_than_the_places_is_looked_at_too() {
        for bytes in [0_u64, 1, 511, 4096, 70_000, 300_000] {
            assert_eq!(named(bytes, &|_, bytes| Some(vec![0; bytes])), None);
            assert_eq!(named(bytes, &|_, _| None), None);
        }
    }

    /// What the tools of this machine write is recognised.
    #[test]
    fn what_tools_write_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let made = [
            ("mkfs.ext4", &["-q"][..], "an ext file system"),
            ("mkfs.xfs", &["-q"], "an XFS file system"),
            ("mkfs.btrfs", &["-q"], "a btrfs file system"),
            ("mkfs.vfat", &[], "a FAT file system"),
            ("mkfs.ntfs", &["-q", "-F"], "an NTFS file system"),
            ("mkswap", &["-q"], "swap space"),
        ];
        for (tool, arguments, what) in made {
            let path = directory.path().join(tool);
            let file = std::fs::File::create_new(&path).unwrap();
            file.set_len(400 << 20).unwrap();
            if !run(tool, arguments, &path) {
                println!("skipped: {tool} is not here");
                continue;
            }
            let file = std::fs::File::open(&path).unwrap();
            let read = |at, bytes| {
                let mut target = vec![0; bytes];
                file.read_exact_at(&mut target, at).ok().map(|()| target)
            };
            assert_eq!(named(400 << 20, &read), Some(format!("holds {what}")), "{tool}");
        }
    }

    fn run(tool: &str, arguments: &[&str], path: &Path) -> bool {
        Command::new(tool).args(arguments).arg(path).output().is_ok_and(|output| output.status.success())
    }
}
