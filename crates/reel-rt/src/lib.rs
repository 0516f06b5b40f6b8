//! Pinned threads, their mailboxes, timers and clock.
