//! What may be done with a stream, and which bytes its reader gets when, in simulated time.

use proptest::prelude::*;
use reel_files::limits::{
    ANSWER_TIME, BRANCHES_MAX, GATHER_TIME, LEAD, LOOK_EVERY, PIECE_BYTES_MIN, SERVER_SILENCE_MAX,
    STREAMS_MAX, STREAMS_PER_USER_MAX, UNUSED_TIME,
};
use reel_files::{
    Answer, BranchFile, ClassChange, FileForm, FileTimes, Joining, Look, MediaSession, OutletFacts, Owner,
    Problem, Stream, StreamFile, StreamTable,
};
use rustix::io::Errno;
use std::time::{Duration, Instant};

const OWNER: Owner = Owner { uid: 7, gid: 8 };
const MS: Duration = Duration::from_millis(1);
/// Of the title: 100 kB in each of ten seconds.
const BYTES: usize = 1_000_000;

fn times() -> FileTimes {
    let stretches = (0..10).map(|second| (second * 100_000, second * 1_000_000_000)).collect();
    FileTimes::new(BYTES as u64, 10_000_000_000, stretches).unwrap()
}

fn session(key: &str) -> MediaSession {
    MediaSession { user: 1000, key: key.to_owned(), path: format!("/s/{key}/a.mp4") }
}

fn problem(errno: Errno) -> Problem {
    Problem { errno, text: format!("{errno:?}") }
}

/// A byte of the file of the title.
fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

/// A stream, its server, and the time.
struct Playing {
    stream: Stream,
    now: Instant,
    began: Instant,
}

impl Playing {
    fn new() -> Playing {
        let now = Instant::now();
        let mut stream = Stream::new(OWNER, now);
        stream.set_title("a".into()).unwrap();
        Playing { stream, now, began: now }
    }

    fn started() -> Playing {
        let mut playing = Playing::new();
        playing.start("1").unwrap();
        playing
    }

    fn start(&mut self, key: &str) -> Result<(), Problem> {
        let wanted = self.stream.start()?;
        assert_eq!((&*wanted.title, &*wanted.class), ("a", "periodic"));
        let times = times();
        match self.stream.check(&times) {
            Ok(()) => self.stream.started(session(key), times, self.now)?,
            Err(problem) => {
                self.stream.not_started(&problem, None);
                return Err(problem);
            }
        }
        Ok(())
    }

    fn state(&self) -> String {
        self.stream.value(StreamFile::State)
    }

    /// The server gives the pieces that are wanted.
    fn serve(&mut self) {
        while let Some(wanted) = self.stream.wants_piece() {
            let range = wanted.range.start as usize..wanted.range.end as usize;
            assert!(range.len() <= 512 << 10 && range.end <= BYTES);
            let bytes: Vec<u8> = range.map(byte_at).collect();
            self.stream.piece(wanted.number, &bytes);
        }
    }

    /// The answer to a read, and how long it took.
    fn read(&mut self, bytes: usize) -> (Answer, Duration) {
        let put = self.now;
        self.stream.read(bytes, put).unwrap();
        loop {
            self.serve();
            match self.stream.answer(self.now) {
                Answer::NotYet(at) => {
                    assert!(
                        at > self.now && at <= put + ANSWER_TIME,
                        "it is looked at in time, and not at once"
                    );
                    self.now = at;
                }
                answer => return (answer, self.now - put),
            }
        }
    }

    fn left(&mut self) -> Vec<String> {
        self.stream.take_left().iter().map(|session| session.key.clone()).collect()
    }
}

#[test]
fn a_stream_plays_pauses_goes_elsewhere_and_ends() {
    let mut playing = Playing::new();
    assert_eq!((playing.state().as_str(), playing.stream.wants_piece()), ("new", None));
    playing.start("1").unwrap();
    assert_eq!(playing.state(), "playing");
    assert_eq!(playing.stream.value(StreamFile::Rate), "800000", "that of the title");
    playing.read(50_000);
    assert_eq!(playing.stream.value(StreamFile::Position), "0.5");
    playing.stream.pause().unwrap();
    assert_eq!((playing.state().as_str(), playing.left()), ("paused", vec!["1".to_owned()]));
    assert_eq!(playing.stream.wants_piece(), None, "of a stream that is not admitted");
    playing.stream.seek(7_900_000_000, playing.now).unwrap();
    playing.start("2").unwrap();
    assert_eq!(playing.stream.value(StreamFile::Position), "7");
    let mut position = 700_000;
    loop {
        match playing.read(100_000).0 {
            Answer::Bytes(bytes) => {
                assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(position + at)));
                position += bytes.len();
            }
            answer => break assert_eq!((answer, position), (Answer::End, BYTES)),
        }
    }
    assert_eq!((playing.state().as_str(), playing.left()), ("ended", vec!["2".to_owned()]));
    assert_eq!(playing.stream.value(StreamFile::Position), "10");
    // Again, from the position that was set.
    playing.start("3").unwrap();
    assert_eq!(playing.stream.value(StreamFile::Position), "0");
    assert_eq!(playing.stream.close().len(), 1);
}

#[test]
fn what_is_not_for_a_state_is_busy() {
    let mut playing = Playing::new();
    let busy = |result: Result<(), Problem>| result.unwrap_err().errno == Errno::BUSY;
    assert!(busy(playing.stream.pause()) && busy(playing.stream.seek(0, playing.now)));
    playing.stream.start().unwrap();
    assert_eq!(playing.state(), "starting");
    assert!(busy(playing.stream.start().map(drop)) && busy(playing.stream.set_rate(1)));
    assert!(busy(playing.stream.pause()) && busy(playing.stream.open_data().map(drop)));
    playing.stream.started(session("1"), times(), playing.now).unwrap();
    assert!(busy(playing.stream.set_title("b".into())) && busy(playing.stream.set_position(0)));
    assert!(busy(playing.stream.set_rate(1)) && busy(playing.stream.start().map(drop)));
    assert_eq!(playing.stream.open_data(), Ok(None));
    assert!(busy(playing.stream.open_data().map(drop)), "one reader");
    playing.stream.read(1, playing.now).unwrap();
    assert!(busy(playing.stream.read(1, playing.now)), "one read");
    assert_eq!(Stream::new(OWNER, playing.now).start().unwrap_err().errno, Errno::INVAL, "without a title");
}

#[test]
fn a_refusal_is_told_and_the_stream_can_be_started_again() {
    let mut playing = Playing::new();
    playing.stream.start().unwrap();
    playing.stream.not_started(&problem(Errno::AGAIN), Some("{\"status\":503}"));
    assert_eq!(playing.state(), "refused");
    assert_eq!(playing.stream.value(StreamFile::Refusal), "{\"status\":503}");
    assert_eq!(playing.read(10).0, Answer::Error(Errno::AGAIN));
    playing.stream.set_rate(900_000).unwrap();
    playing.start("1").unwrap();
    assert_eq!((playing.state().as_str(), &*playing.stream.value(StreamFile::Refusal)), ("playing", ""));
    // What can never be in time.
    let mut playing = Playing::new();
    playing.stream.set_rate(799_999).unwrap();
    assert_eq!(playing.start("1").unwrap_err().errno, Errno::DQUOT);
    assert_eq!(playing.state(), "failed");
    playing.stream.set_rate(800_000).unwrap();
    playing.stream.set_position(10_000_000_000).unwrap();
    assert_eq!(playing.start("1").unwrap_err().errno, Errno::INVAL);
}

#[test]
fn a_read_is_answered_within_a_second_whatever_the_server_does() {
    let mut playing = Playing::started();
    // What is allowed at once, of what was asked for.
    let (answer, took) = playing.read(50_000);
    assert!(matches!(&answer, Answer::Bytes(bytes) if bytes.len() == 50_000), "{answer:?}");
    assert_eq!(took, Duration::ZERO);
    // Two seconds are ahead; from then on, what is there after a moment.
    playing.read(150_000);
    let (answer, took) = playing.read(131_072);
    assert_eq!(took, GATHER_TIME);
    assert!(matches!(&answer, Answer::Bytes(bytes) if bytes.len() == 20_000), "{answer:?}");
    // Nothing comes.
    playing.stream.pause().unwrap();
    assert_eq!(playing.read(10), (Answer::Error(Errno::INTR), ANSWER_TIME));
    playing.start("2").unwrap();
    playing.stream.wants_piece().unwrap();
    assert_eq!(playing.read(10), (Answer::Error(Errno::INTR), ANSWER_TIME));
    assert!(ANSWER_TIME < Duration::from_secs(1));
}

#[test]
fn what_comes_late_or_of_another_place_is_not_given() {
    let mut playing = Playing::started();
    let first = playing.stream.wants_piece().unwrap();
    assert_eq!(playing.stream.wants_piece(), None, "one at a time");
    playing.stream.seek(5_000_000_000, playing.now).unwrap();
    let second = playing.stream.wants_piece().unwrap();
    assert_eq!((second.range.start, first.range.start), (500_000, 0));
    playing.stream.piece(first.number, &[1; 9]);
    playing.stream.no_piece(first.number, &problem(Errno::IO), None);
    playing.stream.piece(second.number, &[2; 9]);
    assert_eq!(playing.stream.read(9, playing.now), Ok(()));
    assert_eq!(playing.stream.answer(playing.now), Answer::Bytes(vec![2; 9]));
    // A piece that does not come ends it, with what was read before kept.
    let third = playing.stream.wants_piece().unwrap();
    assert_eq!(third.range.start, 500_009);
    playing.stream.no_piece(third.number, &problem(Errno::IO), None);
    assert_eq!((playing.state().as_str(), playing.left()), ("failed", vec!["1".to_owned()]));
    assert_eq!(playing.read(9).0, Answer::Error(Errno::IO));
    playing.start("2").unwrap();
    assert_eq!(playing.stream.wants_piece().unwrap().range.start, 500_009);
}

#[test]
fn the_class_changes_while_it_plays_if_the_server_admits_it() {
    let mut playing = Playing::started();
    playing.read(10);
    let busy = |result: Result<Option<ClassChange>, Problem>| result.unwrap_err().errno == Errno::BUSY;
    assert_eq!(playing.stream.set_class("periodic".into()), Ok(None), "it is that");
    let change = playing.stream.set_class("bulk".into()).unwrap().unwrap();
    assert_eq!((&*change.session.key, &*change.class), ("1", "bulk"));
    assert!(busy(playing.stream.set_class("gold".into())));
    playing.stream.not_changed(&change, Some("{}"));
    let shown = |playing: &Playing| {
        [StreamFile::State, StreamFile::Class, StreamFile::Refusal].map(|file| playing.stream.value(file))
    };
    assert_eq!(shown(&playing), ["playing", "periodic", "{}"]);
    assert!(playing.left().is_empty(), "the session stays");
    playing.stream.set_class("bulk".into()).unwrap();
    playing.stream.changed(&change).unwrap();
    assert_eq!(shown(&playing), ["playing", "bulk", ""]);
    assert!(playing.left().is_empty(), "it is the same session");
    playing.read(200_000);
    assert_eq!(&*playing.stream.wants_piece().unwrap().session.key, "1");
    // It was paused while the server was asked.
    let change = playing.stream.set_class("gold".into()).unwrap().unwrap();
    playing.stream.pause().unwrap();
    assert!(playing.stream.changed(&change).is_err());
    assert_eq!((&*playing.stream.value(StreamFile::Class), playing.left().len()), ("bulk", 1));
    assert_eq!(playing.stream.set_class("gold".into()), Ok(None), "for the next start");
}

#[test]
fn a_title_that_was_replaced_is_not_continued() {
    let mut playing = Playing::started();
    playing.stream.pause().unwrap();
    playing.stream.start().unwrap();
    let other = FileTimes::new(BYTES as u64 + 1, 10_000_000_000, vec![(0, 0)]).unwrap();
    assert_eq!(playing.stream.check(&other).unwrap_err().errno, Errno::IO);
}

#[test]
fn a_reader_that_goes_gives_back_what_is_reserved() {
    let mut playing = Playing::new();
    assert!(playing.stream.open_data().unwrap().is_some(), "it is to be started");
    playing.stream.started(session("1"), times(), playing.now).unwrap();
    playing.stream.read(10, playing.now).unwrap();
    playing.stream.close_data();
    assert_eq!((playing.state().as_str(), playing.left()), ("paused", vec!["1".to_owned()]));
    assert_eq!(playing.stream.answer(playing.now), Answer::Unasked);
    assert!(playing.stream.open_data().unwrap().is_some());
    // It was closed while the server was asked.
    let mut playing = Playing::new();
    playing.stream.start().unwrap();
    playing.stream.not_started(&problem(Errno::TIMEDOUT), None);
    assert!(playing.stream.started(session("late"), times(), playing.now).is_err());
    assert_eq!((playing.state().as_str(), playing.left()), ("failed", vec!["late".to_owned()]));
}

#[test]
fn a_stream_that_is_not_used_for_a_minute_is_closed() {
    let mut now = Instant::now();
    let mut table = StreamTable::default();
    let [unused, used] = [(); 2].map(|()| table.add(OWNER, now).unwrap());
    table.stream(used).unwrap().opened();
    assert_eq!(table.close_unused(now + UNUSED_TIME - MS), Some(now + UNUSED_TIME));
    now += UNUSED_TIME;
    assert_eq!((table.close_unused(now), table.numbers()), (None, vec![used]));
    assert_eq!(table.close(unused).unwrap_err().errno, Errno::NOENT);
    // From the moment at which its last file is closed; what it holds is ended.
    let stream = table.stream(used).unwrap();
    stream.set_title("a".into()).unwrap();
    stream.start().unwrap();
    stream.started(session("1"), times(), now).unwrap();
    now += 1000 * UNUSED_TIME;
    stream.closed(now);
    assert_eq!(table.close_unused(now + UNUSED_TIME - MS), Some(now + UNUSED_TIME));
    assert!(table.take_left().is_empty());
    assert_eq!((table.close_unused(now + UNUSED_TIME), table.numbers()), (None, vec![]));
    assert_eq!(table.take_left().len(), 1);
}

#[test]
fn one_user_cannot_take_all_streams_and_no_number_comes_again() {
    let (now, mut table) = (Instant::now(), StreamTable::default());
    for uid in 0..10 {
        let made = (0..10_000).filter(|_| table.add(Owner { uid, gid: 0 }, now).is_ok()).count();
        let left = STREAMS_MAX.saturating_sub(uid as usize * STREAMS_PER_USER_MAX);
        assert_eq!(made, left.min(STREAMS_PER_USER_MAX), "user {uid}");
    }
    assert_eq!(table.add(OWNER, now).unwrap_err().errno, Errno::NOSPC);
    table.close(1).unwrap();
    assert_eq!(table.add(OWNER, now), Ok(STREAMS_MAX as u64 + 1));
    assert!(table.stream(1).is_err() && table.stream(0).is_err());
}

/// What happens to a stream.
#[derive(Clone, Debug)]
enum Step {
    Start,
    Refuse,
    Pause,
    Seek(u64),
    Position(u64),
    OpenData,
    CloseData,
    Read(usize),
    Fail,
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Start),
        1 => Just(Step::Refuse),
        1 => Just(Step::Pause),
        2 => (0..11_000_u64).prop_map(Step::Seek),
        1 => (0..11_000_u64).prop_map(Step::Position),
        3 => Just(Step::OpenData),
        2 => Just(Step::CloseData),
        12 => (1..300_000_usize).prop_map(Step::Read),
        1 => Just(Step::Fail),
        3 => (0..20_000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is done: every read is answered within a second and with bytes that follow one
    /// another, each session is ended once, and what does not play holds none.
    #[test]
    fn any_steps_keep_a_stream_right(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut playing = Playing::new();
        let (mut opened, mut ended, mut has_reader) = (0, Vec::new(), false);
        for step in steps {
            match step {
                Step::Start => opened += usize::from(playing.start(&opened.to_string()).is_ok()),
                Step::Refuse => {
                    if playing.stream.start().is_ok() {
                        playing.stream.not_started(&problem(Errno::AGAIN), Some("{}"));
                    }
                }
                Step::Pause => drop(playing.stream.pause()),
                Step::Seek(ms) => drop(playing.stream.seek(ms * 1_000_000, playing.now)),
                Step::Position(ms) => drop(playing.stream.set_position(ms * 1_000_000)),
                Step::OpenData => match playing.stream.open_data() {
                    Ok(wanted) => {
                        has_reader = true;
                        if wanted.is_some() {
                            match playing.stream.check(&times()) {
                                Ok(()) => {
                                    let admitted = session(&opened.to_string());
                                    playing.stream.started(admitted, times(), playing.now).unwrap();
                                    opened += 1;
                                }
                                Err(problem) => {
                                    playing.stream.not_started(&problem, None);
                                    playing.stream.close_data();
                                    has_reader = false;
                                }
                            }
                        }
                    }
                    Err(problem) => prop_assert_eq!(problem.errno, Errno::BUSY),
                },
                Step::CloseData => {
                    playing.stream.close_data();
                    has_reader = false;
                }
                Step::Read(bytes) if has_reader => {
                    let at = |playing: &Playing| playing.stream.value(StreamFile::Position);
                    let before = at(&playing);
                    let (answer, took) = playing.read(bytes);
                    prop_assert!(took <= ANSWER_TIME);
                    match answer {
                        Answer::Bytes(given) => {
                            prop_assert!(!given.is_empty() && given.len() <= bytes);
                            prop_assert_eq!(given[1..].iter().zip(&given).all(|(b, a)| *b == (*a + 1) % 251), true);
                        }
                        Answer::End => prop_assert_eq!(playing.state(), "ended"),
                        _ => prop_assert_eq!(at(&playing), before),
                    }
                }
                Step::Read(_) => {}
                Step::Fail => {
                    if let Some(wanted) = playing.stream.wants_piece() {
                        playing.stream.no_piece(wanted.number, &problem(Errno::IO), None);
                    }
                }
                Step::Wait(ms) => playing.now += MS * ms as u32,
            }
            ended.extend(playing.left());
            let holds = usize::from(playing.state() == "playing");
            prop_assert_eq!(opened - ended.len(), holds, "sessions of a stream that is {}", playing.state());
            let mut all = ended.clone();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), ended.len(), "none is ended twice");
        }
    }

    /// A reader that asks all the time gets the bytes as they are shown, two seconds ahead.
    #[test]
    fn a_reader_gets_the_pace_of_the_title(bytes in 1000..200_000_usize) {
        let mut playing = Playing::started();
        let mut given = 0;
        loop {
            let (answer, took) = playing.read(bytes);
            match answer {
                Answer::Bytes(some) => given += some.len(),
                answer => break prop_assert_eq!(answer, Answer::End),
            }
            let shown = ((playing.now - playing.began + LEAD).as_millis() as usize * 100).min(BYTES);
            prop_assert!(given <= shown + 100, "{given} of {shown}");
            // A read that has waited got all that is shown by then, or all that it asked for.
            prop_assert!(took.is_zero() || given + bytes + PIECE_BYTES_MIN as usize >= shown);
        }
        prop_assert_eq!(given, BYTES);
        let took = playing.now - playing.began;
        prop_assert!(took >= Duration::from_millis(7_990) && took <= Duration::from_millis(8_300));
    }
}

/// What a server says of an outlet.
fn outlet(number: u64, state: &str, bytes: u64) -> OutletFacts {
    let (state, reason) = (state.to_owned(), (state == "ended").then(|| "it was slow".to_owned()));
    OutletFacts { number, state, reason, from_byte: 0, bytes, late_bytes: 3, run_bytes: 4, pause_ms: 0.25 }
}

fn joined(playing: &mut Playing) -> Joining {
    assert_eq!(playing.stream.start_to_join("file:a").unwrap(), None, "it plays");
    let joining = playing.stream.join(&"file:a".into(), playing.now).unwrap();
    playing.stream.joined(&joining, outlet(0, "joined", 0));
    joining
}

#[test]
fn a_joined_stream_follows_its_outlets_and_ends_with_them() {
    let mut playing = Playing::started();
    let first = joined(&mut playing);
    assert_eq!((first.from_byte, first.branch), (Some(0), 0));
    assert_eq!(playing.stream.value(StreamFile::State), "joined");
    playing.stream.split().unwrap();
    let second = playing.stream.join_branch(1, &"file:b".into()).unwrap();
    assert_eq!((second.from_byte, second.branch), (None, 1));
    playing.stream.joined(&second, outlet(1, "joined", 0));
    // Nothing else may be done with it.
    let busy = [
        playing.stream.open_data().map(drop),
        playing.stream.start().map(drop),
        playing.stream.pause(),
        playing.stream.seek(0, playing.now),
        playing.stream.start_to_join("file:a").map(drop),
    ];
    assert!(busy.iter().all(|result| result.as_ref().is_err_and(|problem| problem.errno == Errno::BUSY)));
    assert_eq!(playing.stream.unused_since(), None, "it is used while the server plays it");
    // Its class may be changed, once at a time.
    let change = playing.stream.set_class("aperiodic".into()).unwrap().unwrap();
    assert_eq!(*change.session, *first.session);
    let again = playing.stream.set_class("interactive".into());
    assert!(again.is_err_and(|problem| problem.errno == Errno::BUSY));
    playing.stream.not_changed(&change, Some("no"));
    assert_eq!(playing.stream.value(StreamFile::Class), "periodic");
    let change = playing.stream.set_class("aperiodic".into()).unwrap().unwrap();
    playing.stream.changed(&change).unwrap();
    assert_eq!(playing.stream.value(StreamFile::Class), "aperiodic");
    assert_eq!(playing.stream.set_class("aperiodic".into()).unwrap(), None, "it has it");

    let at = playing.now + LOOK_EVERY;
    assert_eq!(playing.stream.look(playing.now), Some(Look::At(at)));
    assert_eq!(playing.stream.look(at), Some(Look::Now(first.session.clone())));
    assert_eq!(playing.stream.look(at), None, "the server is asked");
    let told = [outlet(0, "joined", 250_000), outlet(1, "ended", 100)];
    playing.stream.outlets(&first.session, &told, at);
    assert_eq!(playing.stream.value(StreamFile::Position), "2.5");
    let value = |stream: &Stream, branch, file| stream.value(StreamFile::OfBranch(branch, file));
    let files = BranchFile::ALL.map(|file| value(&playing.stream, 1, file));
    assert_eq!(files, ["file:b", "ended", "100", "3", "4", "0.250", "it was slow"]);
    playing.stream.outlets(&first.session, &[outlet(0, "complete", BYTES as u64)], at);
    assert_eq!(playing.stream.value(StreamFile::State), "ended");
    assert_eq!(playing.stream.take_left(), [first.session]);
    assert_eq!(playing.stream.unused_since(), Some(at), "a script has a minute to look");
}

#[test]
fn a_stream_whose_outlets_all_end_early_has_failed_with_the_reason() {
    let mut playing = Playing::started();
    let joining = joined(&mut playing);
    playing.stream.outlets(&joining.session, &[outlet(0, "ended", 5)], playing.now);
    assert_eq!(playing.stream.value(StreamFile::State), "failed");
    assert_eq!(playing.stream.value(StreamFile::Error), "it was slow");
    // So it has if its session is gone, and not if the server is silent for a while.
    for (errno, state) in [(Errno::TIMEDOUT, "joined"), (Errno::NOENT, "failed")] {
        let mut playing = Playing::started();
        let joining = joined(&mut playing);
        playing.stream.no_outlets(&joining.session, &problem(errno), playing.now);
        assert_eq!(playing.stream.value(StreamFile::State), state);
        // The files of its branch say the same.
        let of_branch = |file| playing.stream.value(StreamFile::OfBranch(0, file));
        let branch = (of_branch(BranchFile::State), of_branch(BranchFile::Error));
        let expected = match state {
            "joined" => ("joined", String::new()),
            _ => ("ended", problem(errno).text),
        };
        assert_eq!(branch, (expected.0.to_owned(), expected.1));
    }
    // A server that was killed says nothing, and one that was restarted knows no outlet.
    let mut playing = Playing::started();
    let joining = joined(&mut playing);
    let mut at = playing.now;
    for state in ["joined", "joined", "failed"] {
        assert_eq!(playing.stream.value(StreamFile::State), "joined");
        playing.stream.no_outlets(&joining.session, &problem(Errno::IO), at);
        assert_eq!(playing.stream.value(StreamFile::State), state);
        at += SERVER_SILENCE_MAX / 2;
    }
    let mut playing = Playing::started();
    let joining = joined(&mut playing);
    playing.stream.outlets(&joining.session, &[], playing.now);
    assert_eq!(playing.stream.value(StreamFile::State), "failed");
    assert!(playing.stream.value(StreamFile::Error).contains("restarted"));
}

#[test]
fn a_branch_gets_another_destination_or_keeps_the_one_it_has() {
    let mut playing = Playing::started();
    let joining = joined(&mut playing);
    assert_eq!(joining.replaces, None);
    let dest = |stream: &Stream| stream.value(StreamFile::OfBranch(0, BranchFile::Dest));
    for (other, facts, shown) in
        [("file:b", None, "file:a"), ("file:c", Some(outlet(0, "joined", 7)), "file:c")]
    {
        let next = playing.stream.join_branch(0, &other.into()).unwrap();
        assert_eq!((next.replaces, next.from_byte, &*next.to), (Some(0), None, other));
        let busy = playing.stream.join_branch(0, &"file:d".into());
        assert!(busy.is_err_and(|problem| problem.errno == Errno::BUSY), "the server is asked");
        assert_eq!(dest(&playing.stream), "file:a", "until the server has said so");
        match facts {
            Some(facts) => playing.stream.joined(&next, facts),
            None => playing.stream.not_joined(&next, Some("no")),
        }
        assert_eq!(dest(&playing.stream), shown);
        assert_eq!(playing.stream.value(StreamFile::State), "joined");
    }
    playing.stream.split().unwrap();
    let second = playing.stream.join_branch(1, &"file:e".into()).unwrap();
    playing.stream.joined(&second, outlet(1, "joined", 0));
    let told = [outlet(0, "ended", 9), outlet(1, "joined", 0)];
    playing.stream.outlets(&joining.session, &told, playing.now);
    let ended = playing.stream.join_branch(0, &"file:f".into());
    assert!(ended.is_err_and(|problem| problem.errno == Errno::BUSY && problem.text.contains("ended")));
}

#[test]
fn a_stream_that_cannot_be_joined_is_paused_where_it_was() {
    let mut playing = Playing::started();
    let joining = playing.stream.join(&"file:a".into(), playing.now).unwrap();
    playing.stream.not_joined(&joining, Some("{}"));
    assert_eq!(playing.stream.value(StreamFile::State), "paused");
    assert_eq!(playing.stream.take_left(), [joining.session]);
    assert!(playing.stream.start_to_join("file:a").unwrap().is_some(), "it can be started and joined again");
}

#[test]
fn branches_are_bounded() {
    let mut playing = Playing::started();
    assert!(playing.stream.split().is_err_and(|problem| problem.errno == Errno::BUSY), "it is not joined");
    joined(&mut playing);
    for _ in 1..BRANCHES_MAX {
        playing.stream.split().unwrap();
    }
    assert!(playing.stream.split().is_err_and(|problem| problem.errno == Errno::NOSPC));
    assert_eq!(playing.stream.branches(), BRANCHES_MAX);
    // A refused destination can be written again.
    let refused = playing.stream.join_branch(1, &"file:b".into()).unwrap();
    playing.stream.not_joined(&refused, None);
    assert_eq!(playing.stream.value(StreamFile::State), "joined");
    assert!(playing.stream.join_branch(1, &"file:c".into()).is_ok());
}

#[test]
fn a_stream_gets_the_sound_of_another_stream_of_its_user() {
    let (mut table, now) = (StreamTable::default(), Instant::now());
    let other = Owner { uid: 9, gid: 8 };
    let numbers = [OWNER, OWNER, other].map(|owner| table.add(owner, now).unwrap());
    let [pictures, sound, foreign] = numbers;
    let errno = |result: Result<_, Problem>| result.map(drop).unwrap_err().errno;
    table.stream(foreign).unwrap().set_title("secret".into()).unwrap();
    assert_eq!(errno(table.merged_title(pictures, foreign)), Errno::ACCESS);
    assert_eq!(errno(table.merged_title(pictures, 9)), Errno::NOENT);
    assert_eq!(errno(table.merged_title(9, sound)), Errno::NOENT);
    assert_eq!(errno(table.merged_title(pictures, sound)), Errno::INVAL, "neither has a title");
    table.stream(sound).unwrap().set_title("song".into()).unwrap();
    assert_eq!(errno(table.merged_title(pictures, sound)), Errno::INVAL, "it has no pictures yet");
    table.stream(pictures).unwrap().set_title("film+talk".into()).unwrap();
    assert_eq!(table.merged_title(pictures, sound).as_deref(), Ok("film+song"));
    table.stream(sound).unwrap().start().unwrap();
    assert_eq!(table.merged_title(pictures, sound).as_deref(), Ok("film+song"), "the other one may play");
    table.stream(pictures).unwrap().start().unwrap();
    assert_eq!(errno(table.merged_title(pictures, sound)), Errno::BUSY);
}

#[test]
fn what_takes_packets_is_joined_to_another_file_at_the_same_time() {
    let mut playing = Playing::started();
    playing.read(50_000);
    let wanted = playing.stream.start_to_join("live:studio").unwrap().unwrap();
    assert_eq!(playing.stream.take_left().len(), 1, "what it had as MP4 is given back");
    assert_eq!((wanted.form, playing.stream.value(StreamFile::Position)), (FileForm::Ts, "0.5".into()));
    playing.stream.not_started(&problem(Errno::INVAL), Some("{}"));
    assert_eq!(playing.stream.value(StreamFile::Position), "0.5", "it is where it was");
    playing.stream.start_to_join("udp:127.0.0.1:5000").unwrap().unwrap();
    playing.stream.started(session("2"), times(), playing.now).unwrap();
    assert_eq!(playing.stream.open_data().map(drop).map_err(|busy| busy.errno), Err(Errno::BUSY));
    assert_eq!(playing.stream.value(StreamFile::Position), "0", "with the stretch of that time");
    playing.stream.pause().unwrap();
    playing.start("3").unwrap();
    assert_eq!(playing.stream.value(StreamFile::Position), "0");
    // After the end it is read from the beginning again.
    while playing.read(100_000).0 != Answer::End {}
    playing.stream.start_to_join("udp:127.0.0.1:5000").unwrap().unwrap();
    playing.stream.started(session("4"), times(), playing.now).unwrap();
    assert_eq!(playing.stream.value(StreamFile::Position), "0");
}
