//! The form `ts` is made of titles that came in other containers.

use crate::films;
use crate::streams::assert_sums;
use crate::test_library::TestLibrary;
use reel_library::{Form, IngestError, IngestOptions, Input, Library, Stop, StreamError, SubtitleFile};
use reel_media::TrackKind;
use reel_media::transport::{MuxError, StreamReader};
use reel_volume::{GeometryPreset, Role, STREAM_NUMBER};
use std::fs;
use std::io;
use std::path::Path;

/// A file in memory.
struct Memory(Vec<u8>);

impl reel_media::Source for Memory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let bytes = self.0.get(start..start + target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(bytes);
        Ok(())
    }
}

fn take(library: &Library, film: &Path, stream: bool) -> String {
    let options = IngestOptions { stream, ..IngestOptions::default() };
    let ingested = library.ingest(&[Input::new(film)], &options, &mut |_| {}).expect("taken");
    assert_eq!(ingested.warnings, [""; 0]);
    ingested.id
}

/// What is exported decodes to the film, and its index is what is read of it.
fn check(test_library: &TestLibrary, library: &Library, id: &str, film: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    library.export_stream(id, &mut bytes, &mut |_, _| ()).expect("exported");
    let out = test_library.path().join("out.ts");
    fs::write(&out, &bytes).expect("written");
    assert_eq!(films::frames(&out, "v:0"), films::frames(film, "v:0"));
    let sound = films::frames(&out, "a:0");
    let source = films::frames(film, "a:0");
    let common = source.iter().filter(|sum| sound.contains(sum)).count();
    assert!(common + 2 >= source.len(), "{common} of {}", source.len());
    let mut reader = StreamReader::open(Box::new(Memory(bytes.clone()))).expect("a stream");
    while reader.read(1000, &mut Vec::new()).expect("read") > 0 {}
    let (index, warnings) = reader.finish().expect("an index");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(library.stream(id).expect("opened").index.as_ref(), &index);
    assert_sums(library, id);
    bytes
}

#[test]
fn a_stored_title_gets_the_form_and_keeps_the_other() {
    for preset in [GeometryPreset::Cmaf, GeometryPreset::Ts] {
        let test_library = TestLibrary::with(96 << 20, preset);
        let library = test_library.library();
        let film = films::make(test_library.path(), "film.mp4", 10, films::H264_AAC);
        let id = take(&library, &film, false);
        let played = library.open(&id).expect("opens");
        let before = library.summary(&id).expect("listed");
        let mut last = (0, 0);
        let added = library.add_stream(&id, &Stop::default(), &mut |done, all| last = (done, all));
        let added = added.expect("added");
        assert_eq!(added.warnings, [""; 0]);
        assert_eq!((last.0, last.1), (played.index().duration_ns, played.index().duration_ns));
        let bytes = check(&test_library, &library, &id, &film);
        assert_eq!(added.index.bytes(), bytes.len() as u64);

        let now = library.summary(&id).expect("listed");
        assert_eq!(now.forms.iter().map(|form| form.form).collect::<Vec<_>>(), [Form::Cmaf, Form::Ts]);
        assert_eq!((now.problem.clone(), now.duration_s), (None, before.duration_s));
        assert!(now.forms[1].peak_bps.expect("known") < 2 * now.forms[1].average_bps, "{now:?}");
        let mut mp4 = Vec::new();
        library.export(&id, &mut mp4, &mut |_, _| ()).expect("the other form is there");
        let again = library.add_stream(&id, &Stop::default(), &mut |_, _| ());
        assert!(matches!(again, Err(StreamError::Exists { .. })));
        let srt = SubtitleFile {
            file_name: "film.de.srt".to_owned(),
            bytes: b"1\n00:00:01,000 --> 00:00:02,000\nHallo\n".to_vec(),
            ..SubtitleFile::default()
        };
        library.add_subtitles(&id, &srt).expect("subtitles beside a stream");
        assert_eq!(library.open(&id).expect("opens").index().of_kind(TrackKind::Subtitle).count(), 1);
        drop((library, played));
        let library = test_library.library();
        assert!(check(&test_library, &library, &id, &film) == bytes, "opened again");
        assert!(library.volume().check(&mut |_| true).is_clean());
    }
}

#[test]
fn an_ingest_makes_both_forms_in_one_step() {
    let test_library = TestLibrary::with(96 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let codecs = ["-c:v", "libx265", "-x265-params", "log-level=none:keyint=25", "-c:a", "ac3"];
    let film = films::make(test_library.path(), "film.mkv", 4, &codecs);
    let id = take(&library, &film, true);
    check(&test_library, &library, &id, &film);
    library.open(&id).expect("it is played, too");
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let test_library = TestLibrary::with(96 << 20, GeometryPreset::Ts);
    let library = test_library.library();
    let free_bytes = library.volume().free_bytes();
    let codecs = ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "libopus"];
    let film = films::make(test_library.path(), "film.webm", 2, &codecs);
    let options = IngestOptions { stream: true, ..IngestOptions::default() };
    let error = library.ingest(&[Input::new(&film)], &options, &mut |_| {}).expect_err("VP9");
    assert!(matches!(error, IngestError::Multiplex { source: MuxError::NotCarried { .. }, .. }), "{error}");
    assert_eq!(library.volume().free_bytes(), free_bytes);

    let id = take(&library, &film, false);
    let free_bytes = library.volume().free_bytes();
    let error = library.add_stream(&id, &Stop::default(), &mut |_, _| ()).expect_err("VP9");
    assert!(error.to_string().contains("cannot carry VP9"), "{error}");
    let film = films::make(test_library.path(), "other.mp4", 2, films::H264_AAC);
    let other = take(&library, &film, false);
    let stop = Stop::default();
    stop.stop();
    let error = library.add_stream(&other, &stop, &mut |_, _| ()).expect_err("stopped");
    assert!(matches!(error, StreamError::Store(IngestError::Cancelled)), "{error}");
    assert!(matches!(library.add_stream("none", &stop, &mut |_, _| ()), Err(StreamError::Title(_))));
    library.remove(&other).expect("removed");
    assert_eq!(library.volume().free_bytes(), free_bytes);
    let record = library.record(&id).expect("there");
    assert!(record.object(Role::Track, STREAM_NUMBER).is_none());
}
