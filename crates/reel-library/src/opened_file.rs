//! One input file, opened, with the subtitles beside it.

use crate::error::IngestError;
use crate::guard::media_error;
use crate::input::{Input, Stop};
use crate::sidecar::{Sidecar, read_sidecar};
use crate::source::FileSource;
use crate::watch::stamp_of;
use reel_media::{Chapter, Cover, Demux, MediaError, Packet, Track, TrackKind};
use std::io;
use std::path::PathBuf;

/// Video tracks that are left out and are named in the warning about them.
const VIDEOS_NAMED: usize = 4;

/// A file being ingested.
pub(crate) struct OpenedFile {
    pub(crate) path: PathBuf,
    pub(crate) file_name: String,
    pub(crate) bytes: u64,
    pub(crate) modified_unix_s: u64,
    demux: Box<dyn Demux>,
    /// For each track of the demuxer: its number among the selected tracks.
    taken: Vec<Option<usize>>,
    tracks: Vec<Track>,
    /// Remaining cues of the sidecars, by track.
    cues: std::vec::IntoIter<(usize, reel_media::Sample, String)>,
    remarks: Vec<String>,
}

impl OpenedFile {
    /// Opens a file. For further renditions only the video is selected. Opening and reading end
    /// when `stop` is raised.
    pub(crate) fn open(input: &Input, video_only: bool, stop: &Stop) -> Result<OpenedFile, IngestError> {
        let failed = |source| IngestError::Open { path: input.path.clone(), source };
        let file_name = input.name();
        let stamp = stamp_of(&input.path).map_err(failed)?;
        let source = FileSource::open(&input.path, stop).map_err(failed)?;
        let demux = match reel_media::open(Box::new(source)) {
            Ok(demux) => demux,
            Err(source) => return Err(media_error(&file_name, source)),
        };
        let mut opened = OpenedFile {
            path: input.path.clone(),
            file_name,
            bytes: stamp.bytes,
            modified_unix_s: stamp.modified_unix_s,
            demux,
            taken: Vec::new(),
            tracks: Vec::new(),
            cues: Vec::new().into_iter(),
            remarks: Vec::new(),
        };
        opened.choose(video_only);
        Ok(opened)
    }

    /// The selected tracks, those of sidecars last.
    pub(crate) fn tracks(&self) -> Vec<Track> {
        self.tracks.clone()
    }

    /// The next sample of a selected track.
    pub(crate) fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, IngestError> {
        while let Some(packet) = self.demux.next(data).map_err(|e| media_error(&self.file_name, e))? {
            match self.taken.get(packet.track) {
                Some(Some(track)) => return Ok(Some(Packet { track: *track, ..packet })),
                Some(None) => {}
                None => {
                    let broken = io::Error::other("a sample belongs to a track that the file does not have");
                    return Err(media_error(&self.file_name, MediaError::Io(broken)));
                }
            }
        }
        Ok(self.cues.next().map(|(track, sample, text)| {
            data.clear();
            data.extend_from_slice(text.as_bytes());
            Packet { track, sample, change: None }
        }))
    }

    /// The chapters that the file states, by start.
    pub(crate) fn chapters(&self) -> &[Chapter] {
        self.demux.chapters()
    }

    /// The picture that the file holds as its cover.
    pub(crate) fn cover(&mut self) -> Option<Cover> {
        self.demux.cover().unwrap_or_else(|error| {
            self.remarks.push(format!("the cover cannot be read: {error}"));
            None
        })
    }

    /// The read position, in bytes of this file.
    pub(crate) fn position(&self) -> u64 {
        self.demux.position().min(self.bytes)
    }

    /// The warnings about this file; `named` prefixes each with the file's name.
    pub(crate) fn warnings(&self, named: bool) -> Vec<String> {
        let all = self.demux.warnings().iter().chain(&self.remarks);
        all.map(|text| if named { format!("{}: {text}", self.file_name) } else { text.clone() }).collect()
    }

    /// Adds warnings about this file.
    pub(crate) fn remark(&mut self, remarks: Vec<String>) {
        self.remarks.extend(remarks);
    }

    /// Of several video tracks one is selected, the first default one if there is one: the others
    /// are angles, not renditions to switch between.
    fn choose(&mut self, video_only: bool) {
        let tracks = self.demux.tracks();
        let is_video = |track: &Track| track.kind == TrackKind::Video;
        let film = tracks.iter().position(|track| is_video(track) && track.default);
        let film = film.or_else(|| tracks.iter().position(is_video));
        let mut others = 0;
        let mut videos_left = Vec::new();
        for (number, track) in tracks.iter().enumerate() {
            let taken = if is_video(track) { film == Some(number) } else { !video_only };
            if !taken {
                match &track.video {
                    Some(video) => {
                        let name = track.name.as_ref().map(|name| format!("{name:?}, ")).unwrap_or_default();
                        videos_left.push(format!("{name}{} x {}", video.width, video.height));
                    }
                    None => others += 1,
                }
                self.taken.push(None);
                continue;
            }
            self.taken.push(Some(self.tracks.len()));
            self.tracks.push(track.clone());
        }
        if others > 0 {
            self.remarks
                .push("audio and subtitles were left out: those of the first file are used".to_owned());
        }
        if !videos_left.is_empty() {
            let (count, shown) = (videos_left.len(), videos_left.len().min(VIDEOS_NAMED));
            let more = if count > shown { " and others" } else { "" };
            self.remarks.push(format!(
                "a title has one picture: of {} video tracks, {count} were left out ({}{more})",
                count + 1,
                videos_left[..shown].join("; ")
            ));
        }
    }

    /// Selects the tracks of these subtitle files too.
    pub(crate) fn add_sidecars(&mut self, files: Vec<Input>) {
        let mut cues = Vec::new();
        for file in files {
            match read_sidecar(&file.path, &file.name(), &self.file_name) {
                Ok(Sidecar { track, cues: of_track, warning }) => {
                    self.remarks.extend(warning);
                    let number = self.tracks.len();
                    self.tracks.push(track);
                    cues.extend(of_track.into_iter().map(|(sample, text)| (number, sample, text)));
                }
                Err(remark) => self.remarks.push(remark),
            }
        }
        self.cues = cues.into_iter();
    }
}
