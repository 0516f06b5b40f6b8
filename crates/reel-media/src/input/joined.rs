//! Films that were joined byte by byte (`cat a.mkv b.mkv`): what follows the first of them.

/// The warning of another film in the same file, which begins at byte `at` and has `bytes`.
pub(crate) fn another_film(at: u64, bytes: u64) -> String {
    format!(
        "another film begins at byte {at}, and its {bytes} bytes are left out: store each film in a file of its \
         own, or join them with a program that knows the container"
    )
}
