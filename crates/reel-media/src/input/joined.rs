//! Films that were joined byte by byte (`cat a.mkv b.mkv`): what follows the first of them.

/// What to do.
const ADVICE: &str =
    "store each film in a file of its own, or join them with a program that knows the container";

/// The warning of another film in the same file, which begins at byte `at` and has `bytes`.
pub(crate) fn another_film(at: u64, bytes: u64) -> String {
    format!("another film begins at byte {at}, and its {bytes} bytes are left out: {ADVICE}")
}

/// The same for a film that would follow if it had the tracks of the film before it. `place` says
/// at which time.
pub(crate) fn film_of_other_tracks(place: &str, at: u64, bytes: u64) -> String {
    format!(
        "another film begins{place} at byte {at}, and its {bytes} bytes are left out, because its tracks differ: \
         {ADVICE}"
    )
}
