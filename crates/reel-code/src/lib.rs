//! Erasure codes and checksums over rows.
