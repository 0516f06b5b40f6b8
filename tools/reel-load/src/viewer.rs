//! One viewer: comes, chooses titles, watches, leaves.

use super::chance::{Purpose, sequence};
use super::limits::SAMPLE_NS;
use super::origin::{Origin, Role};
use super::plan::Hls;
use super::session::{End, watch};
use super::thread::Thread;
use reel_testkit::{Rng, Zipf};
use std::rc::Rc;

/// Runs viewer `number`, which comes at `at_ns`.
pub(crate) async fn viewer(thread: Rc<Thread>, hls: Hls, number: usize, at_ns: u64) {
    let mut choice = TitleChoice::new(&hls, thread.plan.seed, thread.catalogue.titles.len(), number);
    let mut remote = sequence(thread.plan.seed, Purpose::RemoteControl, number);
    let from = Origin::of(&thread.plan.from, Role::Viewer, number);
    thread.sleep_until(at_ns).await;
    thread.tallies.borrow_mut().viewers.came += 1;
    let mut title = choice.next();
    loop {
        match watch(&thread, &hls, &thread.catalogue.titles[title], from, &mut remote).await {
            End::Refused(refusal) if hls.retry => {
                thread.sleep(refusal.retry_after_s.unwrap_or(1).max(1) * SAMPLE_NS).await;
            }
            End::Failed if hls.retry => thread.sleep(SAMPLE_NS).await,
            End::Refused(_) | End::Failed => return,
            End::Shown if thread.plan.duration.is_none() => return,
            End::Shown | End::Another => title = choice.next(),
        }
    }
}

/// Which titles a viewer chooses, one after another. Pure.
#[derive(Debug)]
pub(crate) struct TitleChoice {
    law: Option<Zipf>,
    rng: Rng,
    titles: usize,
    last: Option<usize>,
    number: usize,
}

impl TitleChoice {
    pub(crate) fn new(hls: &Hls, seed: u64, titles: usize, number: usize) -> Self {
        let law = hls.zipf.map(|alpha| Zipf::new(titles, alpha));
        Self { law, rng: sequence(seed, Purpose::Title, number), titles, last: None, number }
    }

    /// By Zipf's law, or one after another, each viewer beginning with another.
    pub(crate) fn next(&mut self) -> usize {
        let chosen = match (&self.law, self.last) {
            (Some(law), _) => law.choose(&mut self.rng),
            (None, Some(last)) => (last + 1) % self.titles.max(1),
            (None, None) => self.number % self.titles.max(1),
        };
        self.last = Some(chosen);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(seed: u64, zipf: Option<f64>, viewer: usize) -> Vec<usize> {
        let mut choice = TitleChoice::new(&Hls { zipf, ..Hls::default() }, seed, 20, viewer);
        (0..50).map(|_| choice.next()).collect()
    }

    #[test]
    fn the_same_seed_chooses_the_same_titles() {
        assert_eq!(chosen(3, Some(0.8), 7), chosen(3, Some(0.8), 7));
        assert_ne!(chosen(3, Some(0.8), 7), chosen(4, Some(0.8), 7));
        assert_ne!(chosen(3, Some(0.8), 7), chosen(3, Some(0.8), 8));
    }

    #[test]
    fn without_a_law_titles_take_turns() {
        assert_eq!(chosen(1, None, 18)[..4], [18, 19, 0, 1]);
        assert_eq!(chosen(1, None, 41)[..2], [1, 2]);
    }
}
