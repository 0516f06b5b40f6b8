//! Whether a client that reads a title as one file plays it, learnt from how fast it reads. Pure.
//!
//! A player that knows nothing of sessions asks for ranges of the file, and takes them at the pace
//! of the film once its buffer is full. A download takes all it can get. What is read by several
//! responses at once is a download, too: a player reads at one place.

use crate::limits::{
    FILE_LASTS_NS, FILE_PACE_MAX, JUMP_NS_MIN, LOOK_BYTES_MAX, OVERLAP_NS_MAX, PLAY_LASTS_NS, PLAYED_MIN_NS,
    REFUSED_AGAIN_NS,
};

/// By which name a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadAs {
    /// Among the files that are played. What lasts for a while is played.
    Play,
    /// Among all files. What keeps the pace of the film is played.
    File,
}

/// What a client has read of a title lately; `S` is the session of one that plays.
#[derive(Debug)]
pub(crate) struct FileReader<S> {
    name: ReadAs,
    /// Responses that are under way.
    responses: u32,
    /// Since when there have been several.
    several_ns: Option<u64>,
    /// What was read since when, by one response after another.
    window: Option<Window>,
    /// The media times from which the last response began, and up to which any was sent. A client
    /// may leave a response and never see the rest of what was sent.
    from_ns: u64,
    sent_ns: u64,
    place: Place<S>,
    /// When it last began, read or ended.
    pub(crate) seen_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begun_ns: u64,
    /// Up to which media time it had been sent when it began.
    sent_ns: u64,
    bytes: u64,
}

/// What a reader is promised.
#[derive(Debug)]
enum Place<S> {
    /// Nothing yet: nothing shows that it plays.
    Unknown,
    Promised(S),
    /// Nothing. It may be tried again from this time on.
    Refused(u64),
}

/// What follows from a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading<S> {
    /// It may be the beginning of playing. A person waits for it.
    Looks,
    /// It comes as there is room.
    Copies,
    /// It plays, and nothing is promised to it yet: a session is to be opened now.
    Plays,
    /// It plays in this session.
    Promised(S),
}

impl<S: Clone> FileReader<S> {
    pub(crate) fn new(name: ReadAs) -> Self {
        Self {
            name,
            responses: 0,
            several_ns: None,
            window: None,
            from_ns: 0,
            sent_ns: 0,
            place: Place::Unknown,
            seen_ns: 0,
        }
    }

    /// A response begins, from this media time on.
    pub(crate) fn begins(&mut self, from_ns: u64, now_ns: u64) -> Reading<S> {
        self.responses += 1;
        if self.responses == 2 {
            self.several_ns = Some(now_ns);
        }
        self.seen_ns = now_ns;
        // What reads here and there does not play.
        let near = self.from_ns.saturating_sub(JUMP_NS_MIN)..=self.sent_ns.saturating_add(JUMP_NS_MIN);
        if !near.contains(&from_ns) {
            self.window = None;
            self.sent_ns = from_ns;
        }
        self.from_ns = from_ns;
        match &self.place {
            Place::Promised(session) => Reading::Promised(session.clone()),
            _ if self.name == ReadAs::Play && self.responses == 1 => Reading::Looks,
            _ => Reading::Copies,
        }
    }

    /// A response has sent more bytes, up to this media time.
    pub(crate) fn reads(&mut self, bytes: u64, until_ns: u64, now_ns: u64) -> Reading<S> {
        self.seen_ns = now_ns;
        let sent_ns = self.sent_ns;
        self.sent_ns = sent_ns.max(until_ns);
        match &self.place {
            Place::Promised(session) => return Reading::Promised(session.clone()),
            Place::Refused(again_ns) if now_ns < *again_ns => return Reading::Copies,
            Place::Refused(_) | Place::Unknown => {}
        }
        if let Some(since_ns) = self.several_ns {
            // Players ask for the next range before they leave the last one.
            if now_ns.saturating_sub(since_ns) > OVERLAP_NS_MAX {
                self.window = None;
            }
            return Reading::Copies;
        }
        let window = self.window.get_or_insert(Window { begun_ns: now_ns, sent_ns, bytes: 0 });
        window.bytes += bytes;
        let lasted_ns = now_ns.saturating_sub(window.begun_ns);
        let window = *window;
        let film_ns = self.sent_ns.saturating_sub(window.sent_ns);
        // A player that gets too little is watched for longer.
        let is_slow = film_ns < PLAYED_MIN_NS && lasted_ns < FILE_LASTS_NS;
        if is_slow || lasted_ns < self.name.lasts_ns() {
            return if self.name == ReadAs::Play && window.bytes < LOOK_BYTES_MAX {
                Reading::Looks
            } else {
                Reading::Copies
            };
        }
        self.window = None;
        if self.name.is_pace_of_player(film_ns, lasted_ns) { Reading::Plays } else { Reading::Copies }
    }

    /// A response has ended.
    pub(crate) fn ends(&mut self, now_ns: u64) {
        self.responses = self.responses.saturating_sub(1);
        if self.responses < 2 {
            self.several_ns = None;
        }
        self.seen_ns = now_ns;
    }

    /// It is promised this session from now on.
    pub(crate) fn promise(&mut self, session: S) {
        self.place = Place::Promised(session);
    }

    /// Nothing is promised to it at this time.
    pub(crate) fn refuse(&mut self, now_ns: u64) {
        self.place = Place::Refused(now_ns.saturating_add(REFUSED_AGAIN_NS));
        self.window = None;
    }

    /// Its session, if it has one.
    pub(crate) fn session(&self) -> Option<&S> {
        match &self.place {
            Place::Promised(session) => Some(session),
            Place::Unknown | Place::Refused(_) => None,
        }
    }

    /// For how long it has read nothing; 0 while a response is under way.
    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        if self.responses > 0 { 0 } else { now_ns.saturating_sub(self.seen_ns) }
    }
}

impl ReadAs {
    /// For how long a client is watched at least before it counts as a player.
    fn lasts_ns(self) -> u64 {
        match self {
            ReadAs::Play => PLAY_LASTS_NS,
            ReadAs::File => FILE_LASTS_NS,
        }
    }

    /// Whether a client plays that has read so much of the film in this time.
    fn is_pace_of_player(self, film_ns: u64, lasted_ns: u64) -> bool {
        let is_slow = self == ReadAs::Play || film_ns <= FILE_PACE_MAX * lasted_ns;
        is_slow && film_ns >= PLAYED_MIN_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    /// Reads for `seconds` in steps of 100 ms at `pace` times that of a film of 8 Mb/s.
    fn read(reader: &mut FileReader<u8>, from_ns: u64, seconds: u64, pace: f64) -> Vec<Reading<u8>> {
        let film_ns = (100.0 * pace * MS as f64) as u64;
        let before_ns = reader.sent_ns;
        let steps = 0..=seconds * 10;
        steps
            .map(|step| {
                let until_ns = before_ns + film_ns * (step + 1);
                reader.reads(film_ns / 1000, until_ns, from_ns + step * 100 * MS)
            })
            .collect()
    }

    fn plays(readings: &[Reading<u8>]) -> Option<usize> {
        readings.iter().position(|reading| *reading == Reading::Plays)
    }

    #[test]
    fn the_pace_of_the_film_for_ten_seconds_is_a_player() {
        for (pace, played) in
            [(1.0, true), (1.9, true), (0.2, true), (2.1, false), (50.0, false), (0.0, false)]
        {
            let mut reader = FileReader::new(ReadAs::File);
            assert_eq!(reader.begins(0, 0), Reading::Copies);
            let readings = read(&mut reader, 0, 10, pace);
            assert_eq!(plays(&readings), played.then_some(100), "{pace}");
        }
    }

    #[test]
    fn a_buffer_is_filled_first() {
        let mut reader = FileReader::new(ReadAs::File);
        reader.begins(0, 0);
        assert_eq!(plays(&read(&mut reader, 0, 2, 60.0)), None);
        // The player takes nothing for a minute, and then plays on.
        assert_eq!(plays(&read(&mut reader, 62 * S, 0, 1.0)), None, "more than twice the pace so far");
        assert!(plays(&read(&mut reader, 63 * S, 11, 1.0)).is_some());
    }

    #[test]
    fn ranges_one_after_another_are_one_reader_and_at_once_a_download() {
        let mut reader = FileReader::new(ReadAs::File);
        let piece = |reader: &mut FileReader<u8>, at_s: u64| {
            reader.begins(at_s * S, at_s * S);
            let reading = reader.reads(1 << 20, (at_s + 1) * S, at_s * S);
            reader.ends(at_s * S);
            reading
        };
        assert_eq!((0..=10).position(|at_s| piece(&mut reader, at_s) == Reading::Plays), Some(10));
        let mut parallel = FileReader::new(ReadAs::File);
        parallel.begins(0, 0);
        parallel.begins(0, 0);
        assert_eq!(plays(&read(&mut parallel, 0, 60, 1.0)), None);
        // The other one has ended: what follows is watched from here on.
        parallel.ends(60 * S);
        assert_eq!(plays(&read(&mut parallel, 60 * S, 10, 1.0)), Some(100));
    }

    /// As ffmpeg does: pictures and sound of some seconds in turn, the next range before the last
    /// is left.
    #[test]
    fn what_reads_two_places_in_turn_plays() {
        let mut reader = FileReader::<u8>::new(ReadAs::File);
        let mut known_s = None;
        for at_s in 0..14 {
            reader.begins(at_s * S, at_s * S);
            reader.reads(1000, at_s * S, at_s * S + MS);
            if at_s > 0 {
                reader.ends(at_s * S + 2 * MS);
            }
            // The system takes seven seconds ahead of the client.
            let reading = reader.reads(8 << 20, (at_s + 8) * S, at_s * S + 500 * MS);
            known_s = known_s.or((reading == Reading::Plays).then_some(at_s));
        }
        assert_eq!(known_s, Some(10));
    }

    #[test]
    fn what_reads_here_and_there_does_not_play() {
        let mut reader = FileReader::<u8>::new(ReadAs::File);
        for at_s in 0..60 {
            let from_ns = (at_s * 7 % 60) * 20 * S;
            reader.begins(from_ns, at_s * S);
            assert_eq!(reader.reads(1 << 20, from_ns + S, at_s * S), Reading::Copies, "{at_s}");
            reader.ends(at_s * S);
        }
    }

    #[test]
    fn among_what_is_played_a_second_is_enough_and_a_look_is_short() {
        let mut reader = FileReader::new(ReadAs::Play);
        assert_eq!(reader.begins(0, 0), Reading::Looks);
        assert_eq!(reader.reads(1000, 0, 0), Reading::Looks);
        assert_eq!(reader.reads(LOOK_BYTES_MAX, 100 * S, 100 * MS), Reading::Copies, "no long look");
        assert_eq!(reader.reads(1000, S, S), Reading::Plays);
        reader.promise(7);
        assert_eq!(reader.reads(1000, S, 2 * S), Reading::Promised(7));
        reader.ends(3 * S);
        assert_eq!(reader.begins(3600 * S, 4 * S), Reading::Promised(7), "a seek");
    }

    #[test]
    fn a_player_that_gets_too_little_is_a_player() {
        for (pace, played) in [(0.85, Some(11)), (0.2, Some(49)), (0.05, None)] {
            let mut reader = FileReader::new(ReadAs::Play);
            assert_eq!(reader.begins(0, 0), Reading::Looks);
            assert_eq!(plays(&read(&mut reader, 0, 60, pace)), played, "{pace}");
        }
    }

    #[test]
    fn a_refused_reader_is_tried_again_later() {
        let mut reader = FileReader::<u8>::new(ReadAs::File);
        reader.begins(0, 0);
        reader.refuse(0);
        let readings = read(&mut reader, 0, 30, 1.0);
        let again = plays(&readings).expect("tried again");
        assert!(again as u64 * 100 * MS >= REFUSED_AGAIN_NS, "{again}");
        assert_eq!(reader.idle_ns(100 * S), 0);
        reader.ends(100 * S);
        assert_eq!(reader.idle_ns(107 * S), 7 * S);
    }
}
