use std::fmt::Debug;

use crate::agenda::{Agenda, Choice};

/// Decides which of several threads may use the processor that they share.
///
/// A core that was given one by [`Tasks::share`](crate::Tasks::share) asks it before each section
/// and at each yield point. No server has one: the one implementation is the laboratory
/// `labs/shared-processor`, where processes share a processor in one order of deadlines. This
/// trait is all that the laboratory needs of [`Tasks`](crate::Tasks).
pub trait ProcessorArbiter: Debug + Send {
    /// Waits until the best task of `agenda` may run on the processor, and returns that choice.
    fn choose(&mut self, agenda: &mut Agenda) -> Choice;

    /// Whether the section that `choice` began should end at this yield point.
    fn should_yield(&self, choice: &Choice) -> bool;

    /// Gives the processor up, because the core is about to sleep in its ring.
    fn leave(&mut self);
}
