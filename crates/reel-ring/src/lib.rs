//! io_uring with registered buffers, and a portable driver with the same face.
