//! Media memory: one memfd arena, its buffers and leases.
