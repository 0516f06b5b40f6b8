//! Whether a path that a user names may be written, and with which consent: pure.
//!
//! Every command that writes to such a path asks this table, which `docs/volume-format.md` states.
//! `target` looks at the path, and words the refusal.

/// What becomes of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A member of a volume.
    Member,
    /// A file that takes the name of the old one when it is complete.
    File,
    /// Bytes written one after another into what is there.
    Stream,
}

/// What is at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing. A file would be made.
    Nothing,
    /// Nothing, among the names of devices. A file would be made in memory.
    NoDevice,
    /// A FIFO, socket or character device, for a file also a link, and for a member a directory.
    Special,
    /// For an output: a block device, where only a member is written, or a directory.
    Disk,
    /// No bytes, or only zeros.
    Zeros,
    /// Something else, or something that cannot be read.
    Data,
    /// A disk with the superblock of the volume that is written, which that volume does not use.
    Discarded,
    /// A member of another volume. Its other members may be elsewhere, so it counts as intact.
    OtherMember,
    /// The list of members of a volume, or for a file also any other part of a volume.
    VolumeFile,
}

/// Which program uses what is at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// None.
    No,
    /// One of this machine: it is locked, mounted, claimed, or under or over something that is.
    Here,
    /// An owner record names a session that may live elsewhere, and was not watched yet.
    Perhaps,
    /// An owner record was renewed while it was watched.
    Elsewhere,
}

/// What the user permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Consent {
    /// To make a file.
    pub(crate) create: bool,
    /// To lose what is there.
    pub(crate) force: bool,
    /// To lose a member of another volume.
    pub(crate) overwrite_volume: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may be written.
    Write,
    /// The owner records must be watched; then the table is asked again.
    Watch,
    /// It is not written.
    Refuse(Refusal),
}

/// Why nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A program of this machine uses it.
    InUse,
    /// Another host has the volume of this member open.
    Owned,
    /// There is no such device.
    NoDevice,
    /// It is no file or no disk.
    Special,
    /// It is a part of a volume.
    PartOfVolume,
    /// Consent to make a file is missing.
    Create,
    /// Consent to lose what is there is missing.
    Force,
    /// Consent to lose a member of another volume is missing.
    OverwriteVolume,
}

/// Whether the path may be written.
pub(crate) fn may_write(purpose: Purpose, holds: Holds, used: Used, consent: Consent) -> Verdict {
    // No consent overrides a program that uses it.
    match used {
        Used::Here => return Verdict::Refuse(Refusal::InUse),
        Used::Elsewhere => return Verdict::Refuse(Refusal::Owned),
        Used::Perhaps | Used::No => {}
    }
    match missing(purpose, holds, consent) {
        Some(refusal) => Verdict::Refuse(refusal),
        None if used == Used::Perhaps => Verdict::Watch,
        None => Verdict::Write,
    }
}

/// What speaks against writing what no program uses.
fn missing(purpose: Purpose, holds: Holds, consent: Consent) -> Option<Refusal> {
    let unless = |given: bool, refusal| (!given).then_some(refusal);
    match (purpose, holds) {
        (_, Holds::NoDevice) => Some(Refusal::NoDevice),
        (_, Holds::VolumeFile) => Some(Refusal::PartOfVolume),
        (_, Holds::Nothing) => unless(consent.create, Refusal::Create),
        (Purpose::Member, Holds::Zeros) => None,
        (Purpose::Member, Holds::Data | Holds::Discarded) => unless(consent.force, Refusal::Force),
        (Purpose::Member, Holds::OtherMember) => unless(consent.overwrite_volume, Refusal::OverwriteVolume),
        (_, Holds::Discarded | Holds::OtherMember) => Some(Refusal::PartOfVolume),
        (Purpose::File | Purpose::Stream, Holds::Zeros | Holds::Data) => {
            unless(consent.force, Refusal::Force)
        }
        (Purpose::Stream, Holds::Special) => unless(consent.force, Refusal::Force),
        (_, Holds::Special | Holds::Disk) => Some(Refusal::Special),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSES: [Purpose; 3] = [Purpose::Member, Purpose::File, Purpose::Stream];
    const HOLDS: [Holds; 9] = [
        Holds::Nothing,
        Holds::NoDevice,
        Holds::Special,
        Holds::Disk,
        Holds::Zeros,
        Holds::Data,
        Holds::Discarded,
        Holds::OtherMember,
        Holds::VolumeFile,
    ];

    fn consents() -> impl Iterator<Item = Consent> {
        let given = |bits: u8, bit: u8| bits & bit != 0;
        (0..8).map(move |bits| Consent {
            create: given(bits, 1),
            force: given(bits, 2),
            overwrite_volume: given(bits, 4),
        })
    }

    /// The least consent with which it may be written if no program uses it, as the table of
    /// `docs/volume-format.md` says: for a member, a file, a stream.
    fn stated(holds: Holds) -> [Option<Consent>; 3] {
        let none = Some(Consent::default());
        let create = Some(Consent { create: true, ..Consent::default() });
        let force = Some(Consent { force: true, ..Consent::default() });
        let volume = Some(Consent { overwrite_volume: true, ..Consent::default() });
        match holds {
            Holds::Nothing => [create; 3],
            Holds::Zeros => [none, force, force],
            Holds::Data => [force; 3],
            Holds::Discarded => [force, None, None],
            Holds::OtherMember => [volume, None, None],
            Holds::Special => [None, None, force],
            Holds::NoDevice | Holds::Disk | Holds::VolumeFile => [None; 3],
        }
    }

    #[test]
    fn every_combination_is_as_the_format_states_it() {
        for (at, purpose) in PURPOSES.into_iter().enumerate() {
            for holds in HOLDS {
                for consent in consents() {
                    let allowed = stated(holds)[at].is_some_and(|least| {
                        (consent.create || !least.create)
                            && (consent.force || !least.force)
                            && (consent.overwrite_volume || !least.overwrite_volume)
                    });
                    let verdict = |used| may_write(purpose, holds, used, consent);
                    let at = (purpose, holds, consent);
                    assert_eq!(verdict(Used::No) == Verdict::Write, allowed, "{at:?}");
                    assert_eq!(verdict(Used::Perhaps) == Verdict::Watch, allowed, "{at:?}");
                    assert_ne!(verdict(Used::Perhaps), Verdict::Write, "{at:?}");
                    assert_eq!(verdict(Used::Here), Verdict::Refuse(Refusal::InUse), "{at:?}");
                    assert_eq!(verdict(Used::Elsewhere), Verdict::Refuse(Refusal::Owned), "{at:?}");
                }
            }
        }
    }

    /// A refusal names the consent that lifts it, or there is none that does.
    #[test]
    fn a_refusal_names_the_consent_that_is_missing() {
        for purpose in PURPOSES {
            for holds in HOLDS {
                for consent in consents() {
                    let Verdict::Refuse(refusal) = may_write(purpose, holds, Used::No, consent) else {
                        continue;
                    };
                    let with = match refusal {
                        Refusal::Create => Consent { create: true, ..consent },
                        Refusal::Force => Consent { force: true, ..consent },
                        Refusal::OverwriteVolume => Consent { overwrite_volume: true, ..consent },
                        _ => {
                            let all = Consent { create: true, force: true, overwrite_volume: true };
                            assert_eq!(may_write(purpose, holds, Used::No, all), Verdict::Refuse(refusal));
                            continue;
                        }
                    };
                    assert_eq!(
                        may_write(purpose, holds, Used::No, with),
                        Verdict::Write,
                        "{purpose:?} {holds:?}"
                    );
                }
            }
        }
    }
}
