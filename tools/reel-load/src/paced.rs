//! A reader of a plain file at a constant rate, with a deadline for every block (Prism section 5).

use super::http::Connection;
use super::limits::RETRY_NS;
use super::origin::{Origin, Role};
use super::plan::Paced;
use super::reader::length;
use super::request_error::RequestError;
use super::thread::Thread;
use reel_testkit::Url;
use std::rc::Rc;
use std::time::Duration;

/// Runs reader `number`, which comes at `at_ns` and reads its file once, or without end if the
/// fleet has a duration.
pub(crate) async fn paced_reader(thread: Rc<Thread>, paced: Paced, number: usize, at_ns: u64) {
    thread.sleep_until(at_ns).await;
    thread.tallies.borrow_mut().viewers.came += 1;
    let titles = &thread.catalogue.titles;
    // Until its file is open: a server that opens few of them must not look good with those.
    let late_if_dropped = LateIfDropped { thread: &thread, schedule: Schedule::new(&paced, at_ns) };
    let mut reader = match Reader::open(&thread, &paced, number, &titles[number % titles.len()]).await {
        Ok(reader) => reader,
        Err(error) => return note(&thread, &error),
    };
    // It begins now; how long the opening took is no matter of its blocks.
    std::mem::forget(late_if_dropped);
    thread.tallies.borrow_mut().viewers.admitted += 1;
    let blocks = reader.length.div_ceil(paced.block_bytes);
    for number in 0.. {
        if number >= blocks && thread.plan.duration.is_none() {
            return;
        }
        reader.read(number).await;
    }
}

fn note(thread: &Thread, error: &RequestError) {
    let mut tallies = thread.tallies.borrow_mut();
    if let RequestError::Refused(refusal) = error {
        tallies.viewers.refusals.add(&refusal.reason, refusal.grantable_bps);
        thread.counters.refused.add(1);
    } else {
        tallies.viewers.failures.add(&error.reason(), None);
        thread.counters.failed.add(1);
    }
}

struct Reader<'a> {
    thread: &'a Thread,
    connection: Connection,
    url: Url,
    length: u64,
    block_bytes: u64,
    /// The first block that is read: readers of the same file are spread over it.
    first: u64,
    schedule: Schedule,
    /// The block that is read, or will be.
    next: u64,
}

/// A reader whose file is not open yet.
struct LateIfDropped<'a> {
    thread: &'a Thread,
    schedule: Schedule,
}

impl Drop for LateIfDropped<'_> {
    /// All that would have been due is late.
    fn drop(&mut self) {
        let unread = self.schedule.due_before(self.thread.now_ns());
        let mut tallies = self.thread.tallies.borrow_mut();
        tallies.paced.reads += unread;
        tallies.paced.late_reads += unread;
        tallies.paced.unread += unread;
    }
}

impl Drop for Reader<'_> {
    /// What is due and has not come when the fleet ends is late, or else a server would be the
    /// better the less it sends.
    fn drop(&mut self) {
        let mut end = self.schedule.due_before(self.thread.now_ns());
        if self.thread.plan.duration.is_none() {
            end = end.min(self.length.div_ceil(self.block_bytes));
        }
        let unread = end.saturating_sub(self.next);
        let mut tallies = self.thread.tallies.borrow_mut();
        tallies.paced.reads += unread;
        tallies.paced.late_reads += unread;
        tallies.paced.unread += unread;
    }
}

impl<'a> Reader<'a> {
    async fn open(
        thread: &'a Rc<Thread>,
        paced: &Paced,
        number: usize,
        url: &Url,
    ) -> Result<Self, RequestError> {
        let mut connection = Connection::new(thread, Origin::of(&thread.plan.from, Role::Viewer, number));
        let (url, length) = length(&mut connection, url).await?;
        let sharing = thread.plan.viewers.div_ceil(thread.catalogue.titles.len()) as u64;
        let turn = (number / thread.catalogue.titles.len()) as u64;
        let first = length.div_ceil(paced.block_bytes) * turn / sharing.max(1);
        let schedule = Schedule::new(paced, thread.now_ns());
        Ok(Self { thread, connection, url, length, block_bytes: paced.block_bytes, first, schedule, next: 0 })
    }

    /// Reads a block in its time, repeatedly if need be: the longer it takes, the later it is.
    async fn read(&mut self, number: u64) {
        let due_ns = self.schedule.due_ns(number);
        self.thread.sleep_until(self.schedule.ask_ns(number)).await;
        let asked_ns = self.thread.now_ns();
        while let Err(error) = self.try_read(number, due_ns).await {
            self.connection.close();
            note(self.thread, &error);
            self.thread.sleep(RETRY_NS).await;
        }
        self.next = number + 1;
        let now_ns = self.thread.now_ns();
        let mut tallies = self.thread.tallies.borrow_mut();
        let tally = &mut tallies.paced;
        tally.reads += 1;
        tally.late_reads += u64::from(now_ns > due_ns);
        tally.latest_ns = tally.latest_ns.max(now_ns.saturating_sub(due_ns));
        tally.response.add(now_ns - asked_ns);
    }

    async fn try_read(&mut self, number: u64, due_ns: u64) -> Result<(), RequestError> {
        let blocks = self.length.div_ceil(self.block_bytes);
        let start = (self.first + number) % blocks * self.block_bytes;
        let bytes = self.block_bytes.min(self.length - start);
        self.connection.get(&self.url, Some((start, bytes))).await?;
        while let Some(got) = self.connection.next().await? {
            let late_bytes = if got.now_ns > due_ns { got.bytes } else { 0 };
            self.thread.counters.bytes.add(got.bytes);
            self.thread.counters.late_bytes.add(late_bytes);
            let mut tallies = self.thread.tallies.borrow_mut();
            tallies.paced.bytes += got.bytes;
            tallies.paced.late_bytes += late_bytes;
        }
        Ok(())
    }
}

/// When blocks are due, and when they are asked for. Pure.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    started_ns: u64,
    rate_bps: u64,
    block_bytes: u64,
    startup_ns: u64,
    ahead_ns: u64,
}

impl Schedule {
    fn new(paced: &Paced, started_ns: u64) -> Self {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        let block_ns = time_ns(paced.block_bytes, paced.rate_bps);
        Self {
            started_ns,
            rate_bps: paced.rate_bps,
            block_bytes: paced.block_bytes,
            startup_ns: paced.startup.map_or(block_ns, ns),
            ahead_ns: paced.ahead.map_or(2 * block_ns, ns),
        }
    }

    fn due_ns(&self, number: u64) -> u64 {
        // From the start, so that nothing adds up by rounding.
        self.started_ns + self.startup_ns + time_ns(number.saturating_mul(self.block_bytes), self.rate_bps)
    }

    /// How many blocks were due before this time.
    fn due_before(&self, now_ns: u64) -> u64 {
        let since_ns = now_ns.saturating_sub(self.started_ns + self.startup_ns);
        let bytes = u128::from(since_ns) * u128::from(self.rate_bps);
        let block = u128::from(self.block_bytes) * 8_000_000_000;
        bytes.div_ceil(block.max(1)) as u64
    }

    fn ask_ns(&self, number: u64) -> u64 {
        self.due_ns(number).saturating_sub(self.ahead_ns)
    }
}

fn time_ns(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_due_at_the_rate_without_drift() {
        let paced = Paced { rate_bps: 3_000_000, block_bytes: 100_000, startup: None, ahead: None };
        let schedule = Schedule::new(&paced, 5_000);
        let block_ns = 266_666_666;
        assert_eq!(schedule.due_ns(0), 5_000 + block_ns);
        assert_eq!(schedule.due_ns(3_000), 5_000 + block_ns + 800_000_000_000);
        assert_eq!(schedule.due_ns(3_000) - schedule.ask_ns(3_000), 2 * block_ns);
        assert_eq!(schedule.ask_ns(0), 0);
        for block in [0, 1, 2, 999] {
            assert_eq!(schedule.due_before(schedule.due_ns(block)), block, "{block}");
            assert_eq!(schedule.due_before(schedule.due_ns(block) + 2), block + 1, "{block}");
        }
        let paced =
            Paced { startup: Some(Duration::from_secs(2)), ahead: Some(Duration::from_secs(1)), ..paced };
        let schedule = Schedule::new(&paced, 5_000);
        assert_eq!((schedule.due_ns(0), schedule.ask_ns(0)), (2_000_005_000, 1_000_005_000));
    }
}
