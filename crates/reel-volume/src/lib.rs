//! Members, superblock, catalogue, allocation; striped, parity-protected reads and writes.
#![forbid(unsafe_code)]
