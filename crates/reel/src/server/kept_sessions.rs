//! Sessions over a restart: a file says what was open, and the next server opens it again first.
//!
//! The file is written every two seconds if something has changed, and when the server stops. So a
//! server that was killed loses the last seconds, in which a client requests a segment at most.
//! Session keys give access, so only the owner may read the file.

use super::ServeError;
use super::guarded::guarded;
use reel_admit::{Client, FormerSession, KeptSession, PlayingAt};
use reel_qos::ClassTable;
use reel_qos::limits::ROUND_NS;
use reel_rt::{fresh_file, now_ns, open_regular};
use reel_serve::Opener;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often what is open is compared with the file.
const KEEP_EVERY: Duration = Duration::from_secs(2);

/// Most sessions that are kept, those with reservations first: 4 MB.
const KEPT_MAX: usize = 16_384;

/// Most bytes of the file that are read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// For how long sessions are opened again before the first connection is accepted. The others are
/// opened when their clients ask.
const RESUME_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the end of the server waits for the last write.
const END_TIME: Duration = Duration::from_secs(1);

const VERSION: u32 = 2;

/// The thread that writes the file.
pub(super) struct SessionKeeper {
    /// The thread writes once more and ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct KeptFile {
    version: u32,
    saved_unix_ms: u64,
    /// Milliseconds since the beginning of a round of the ledger.
    saved_into_round_ms: u64,
    sessions: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    key: String,
    title: String,
    edition: String,
    class: String,
    client: IpAddr,
    /// The user of this machine whose session it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<u32>,
    playing: Option<Place>,
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    media_ms: u64,
    until_ms: [Option<u64>; 3],
    as_file: bool,
    choice: usize,
    /// How many rounds ago media time 0 of what is reserved was.
    round: Option<i64>,
}

/// A moment by both clocks. All sessions of a file are written and read at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    unix_ms: u64,
    now_ns: u64,
}

/// What has passed between two moments.
#[derive(Clone, Copy, Debug)]
struct Gap {
    ms: u64,
    /// To the nearest. Within one run of the machine the rounds continue, and this is exact.
    rounds: i64,
}

impl SessionKeeper {
    /// Starts the thread.
    pub(super) fn start(path: PathBuf, opener: Opener, classes: Arc<ClassTable>) -> Result<Self, ServeError> {
        let (stop, stopped) = channel();
        let mut keeper = Keeper { path, opener, classes, written: None, has_failed: false };
        let run = move || {
            while stopped.recv_timeout(KEEP_EVERY) == Err(RecvTimeoutError::Timeout) {
                guarded(|| keeper.keep());
            }
            guarded(|| keeper.keep());
        };
        let thread = thread::Builder::new().name("reel-sessions".to_owned()).spawn(run);
        Ok(Self { stop, thread: thread.map_err(ServeError::Thread)? })
    }

    /// Writes once more and ends the thread, but does not wait for a file system that does not
    /// answer.
    pub(super) fn stop(self) {
        drop(self.stop);
        let until = Instant::now() + END_TIME;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Opens the sessions again that the server before this one has kept. Their clients continue, and
/// newcomers are admitted to what is left.
pub(super) fn resume(path: &Path, opener: &Opener, classes: &ClassTable, idle_max: Duration) {
    let kept = match read(path) {
        Ok(Some(kept)) => kept,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "sessions of the last run are not opened again");
            return;
        }
    };
    let moment = Moment::now();
    let gap = moment.since(kept.saved_unix_ms, kept.saved_into_round_ms);
    if kept.version != VERSION || Duration::from_millis(gap.ms) > idle_max {
        return;
    }
    let sessions = kept.sessions.into_iter().take(KEPT_MAX);
    let mut sessions: Vec<_> =
        sessions.filter_map(|record| record.session(classes, gap, moment.round())).collect();
    // A session can follow one that is farther on.
    sessions.sort_by_key(|session| session.playing.map_or((true, None), |playing| (false, playing.epoch)));
    let until = Instant::now() + RESUME_TIME_MAX;
    let (mut resumed, mut refused) = (0, 0);
    for mut session in sessions {
        if Instant::now() >= until {
            session.playing = None;
        }
        match opener.resume(session, now_ns()) {
            Ok(is_resumed) => resumed += u64::from(is_resumed),
            Err(error) => {
                refused += 1;
                tracing::debug!(%error, "a session of the last run is not opened again yet");
            }
        }
    }
    if resumed + refused > 0 {
        tracing::info!(resumed, refused, "sessions of the last run continue");
    }
}

struct Keeper {
    path: PathBuf,
    opener: Opener,
    classes: Arc<ClassTable>,
    /// What the file says; `None` before the first write.
    written: Option<Vec<Record>>,
    has_failed: bool,
}

impl Keeper {
    fn keep(&mut self) {
        let moment = Moment::now();
        let kept = self.opener.kept(moment.now_ns).into_iter().take(KEPT_MAX);
        let sessions: Vec<Record> =
            kept.filter_map(|kept| Record::of(kept, &self.classes, moment.round())).collect();
        if self.written.as_ref().is_some_and(|written| are_same(written, &sessions)) {
            return;
        }
        let (saved_unix_ms, saved_into_round_ms) = (moment.unix_ms, moment.into_round_ms());
        let file = KeptFile { version: VERSION, saved_unix_ms, saved_into_round_ms, sessions };
        match write(&self.path, &file) {
            Ok(()) => (self.written, self.has_failed) = (Some(file.sessions), false),
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let path = self.path.display();
                tracing::warn!(%path, %error, "sessions cannot be kept over a restart of the server");
            }
            Err(_) => {}
        }
    }
}

impl Record {
    /// `None` for a program of this machine: its stream ends with the server.
    fn of(kept: KeptSession, classes: &ClassTable, now_round: i64) -> Option<Record> {
        let (client, user) = match kept.former.client {
            Client::Address(client) => (client, None),
            Client::NamedUser(user) => (IpAddr::V4(Ipv4Addr::LOCALHOST), Some(user)),
            Client::User(_) | Client::Server => return None,
        };
        let place = |playing: PlayingAt| Place {
            media_ms: playing.media_ns / MS_NS,
            until_ms: playing.until_ns.map(|until_ns| Some(until_ns? / MS_NS)),
            as_file: playing.as_file,
            choice: playing.choice,
            round: playing.epoch.map(|epoch| now_round - epoch),
        };
        Some(Record {
            key: kept.key.to_string(),
            title: kept.former.title_id,
            edition: kept.former.edition,
            class: classes.spec(kept.former.class).name.clone(),
            client,
            user,
            playing: kept.playing.map(place),
        })
    }

    /// The session so long after the file was written. Its client continued with what it had.
    fn session(self, classes: &ClassTable, gap: Gap, now_round: i64) -> Option<KeptSession> {
        let playing = self.playing.map(|place| {
            let end_ms = place.until_ms.iter().flatten().copied().max().unwrap_or(place.media_ms);
            let media_ms = place.media_ms.saturating_add(gap.ms);
            let is_short = media_ms > end_ms;
            let media_ms = media_ms.min(end_ms.max(place.media_ms));
            let epoch = place.round.map(|round| now_round.saturating_sub(round).saturating_sub(gap.rounds));
            PlayingAt {
                media_ns: media_ms.saturating_mul(MS_NS),
                until_ns: place.until_ms.map(|until_ms| Some(until_ms?.saturating_mul(MS_NS))),
                as_file: place.as_file,
                choice: place.choice,
                epoch: epoch.filter(|_| !is_short),
            }
        });
        let class = classes.by_name(&self.class)?;
        let client = self.user.map_or(Client::Address(self.client), Client::NamedUser);
        let former = FormerSession { title_id: self.title, edition: self.edition, class, client };
        Some(KeptSession { key: self.key.parse().ok()?, former, playing })
    }
}

impl Moment {
    fn now() -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        Moment { unix_ms, now_ns: now_ns() }
    }

    fn round(self) -> i64 {
        // Fits: a clock in nanoseconds has fewer than 2^35 rounds.
        (self.now_ns / ROUND_NS) as i64
    }

    fn into_round_ms(self) -> u64 {
        self.now_ns % ROUND_NS / MS_NS
    }

    fn since(self, saved_unix_ms: u64, saved_into_round_ms: u64) -> Gap {
        let ms = self.unix_ms.saturating_sub(saved_unix_ms);
        let into_ms = ms.saturating_add(saved_into_round_ms).saturating_add(ROUND_MS / 2);
        let rounds = into_ms.saturating_sub(self.into_round_ms()) / ROUND_MS;
        Gap { ms, rounds: i64::try_from(rounds).unwrap_or(i64::MAX) }
    }
}

const MS_NS: u64 = 1_000_000;
const ROUND_MS: u64 = ROUND_NS / MS_NS;

/// Whether a file with these sessions says what is so now: clients that only play on are where the
/// file lets one expect them.
fn are_same(written: &[Record], now: &[Record]) -> bool {
    let is_same = |(one, other): (&Record, &Record)| {
        let same_place = match (one.playing, other.playing) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                (one.until_ms, one.as_file, one.choice) == (other.until_ms, other.as_file, other.choice)
            }
            _ => false,
        };
        one.key == other.key && one.edition == other.edition && same_place
    };
    written.len() == now.len() && written.iter().zip(now).all(is_same)
}

fn read(path: &Path) -> io::Result<Option<KeptFile>> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(serde_json::from_str(&text)?))
}

fn write(path: &Path, kept: &KeptFile) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // One that a server left when it was killed may have other rights.
    let mut file = fresh_file(&temporary, 0o600)?;
    let written = file.write_all(&serde_json::to_vec(kept)?);
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record(place: Place) -> Record {
        Record {
            key: "0123456789abcdef0123456789abcdef".to_owned(),
            title: "film".to_owned(),
            edition: "1".to_owned(),
            class: "periodic".to_owned(),
            client: IpAddr::from([192, 0, 2, 7]),
            user: None,
            playing: Some(place),
        }
    }

    const PLACE: Place = Place {
        media_ms: 10_000,
        until_ms: [Some(40_000), Some(38_000), None],
        as_file: false,
        choice: 2,
        round: Some(11),
    };

    #[test]
    fn a_client_continued_with_what_it_had() {
        let classes = ClassTable::default();
        let cases = [
            (0, 10_000, Some(89)),
            (3_000, 13_000, Some(86)),
            (30_000, 40_000, Some(59)),
            (60_000, 40_000, None),
            (u64::MAX, 40_000, None),
        ];
        for (ms, media_ms, epoch) in cases {
            let gap = Gap { ms, rounds: i64::try_from(ms / ROUND_MS).unwrap_or(i64::MAX) };
            let session = record(PLACE).session(&classes, gap, 100).expect("a session");
            let playing = session.playing.expect("it plays");
            assert_eq!((playing.media_ns, playing.epoch), (media_ms * MS_NS, epoch), "{ms}");
            assert_eq!(playing.until_ns, [Some(40_000 * MS_NS), Some(38_000 * MS_NS), None]);
            let mut again = Record::of(session, &classes, 100).expect("of an address");
            again.playing = Some(PLACE);
            assert_eq!(again, record(PLACE));
        }
        let unknown = Record { class: "gold".to_owned(), ..record(PLACE) };
        assert_eq!(unknown.session(&classes, Gap { ms: 0, rounds: 0 }, 100), None);
    }

    #[test]
    fn rounds_between_two_moments_are_those_of_the_ledger() {
        let at = |ms: u64| Moment { unix_ms: 5_000_000 + ms, now_ns: (77_300 + ms) * MS_NS };
        let saved = at(0);
        for ms in [0, 1, 699, 700, 12_345] {
            let later = at(ms);
            // The two clocks are not read at the same moment.
            for unix_ms in [later.unix_ms, later.unix_ms + 3] {
                let gap = Moment { unix_ms, ..later }.since(saved.unix_ms, saved.into_round_ms());
                assert_eq!(gap.rounds, later.round() - saved.round(), "{ms}");
            }
        }
    }

    #[test]
    fn the_file_is_replaced_as_a_whole_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("sessions");
        assert!(read(&path).expect("no file is no error").is_none());
        for sessions in [vec![record(PLACE)], Vec::new()] {
            let kept = KeptFile { version: VERSION, saved_unix_ms: 5, saved_into_round_ms: 7, sessions };
            write(&path, &kept).expect("written");
            assert_eq!(read(&path).expect("read").expect("there").sessions, kept.sessions);
        }
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        fs::write(&path, "{\"version\":1,").expect("written");
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_client_that_only_plays_on_changes_nothing() {
        let later = Place { media_ms: 12_000, ..PLACE };
        assert!(are_same(&[record(PLACE)], &[record(later)]));
        let more = Place { until_ms: [Some(44_000), Some(38_000), None], ..PLACE };
        assert!(!are_same(&[record(PLACE)], &[record(more)]));
        assert!(!are_same(&[record(PLACE)], &[]));
        let paused = Record { playing: None, ..record(PLACE) };
        assert!(!are_same(&[record(PLACE)], &[paused]));
    }
}
