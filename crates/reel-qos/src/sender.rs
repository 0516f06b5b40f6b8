//! Who sends a stream, and in which class.

use crate::Class;

/// What decides which share a stream is charged to, and what sending it costs the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The class whose share it uses.
    pub class: Class,
    /// The place of the front end that sends it in
    /// [`Capacities::core_mib_ns`](crate::Capacities::core_mib_ns).
    pub front_end: usize,
}

impl From<Class> for Sender {
    /// A stream that the first front end sends.
    fn from(class: Class) -> Sender {
        Sender { class, front_end: 0 }
    }
}
