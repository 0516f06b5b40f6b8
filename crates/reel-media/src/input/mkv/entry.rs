//! Track entries of Matroska (RFC 9559 section 5.1.4) as the file states them.

use super::ebml::{elements, float, signed, text, unsigned};
use super::{hdr, ids};
use crate::limits;
use crate::{Colour, Hdr, MediaError};

/// Language of an entry that states none (RFC 9559 section 5.1.4.1.19), because some writers leave
/// out the default.
const DEFAULT_LANGUAGE: &str = "eng";

/// One TrackEntry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// TrackNumber, which blocks refer to.
    pub(crate) number: u64,
    /// What it carries.
    pub(crate) kind: Kind,
    /// CodecID.
    pub(crate) codec: String,
    /// CodecPrivate.
    pub(crate) private: Vec<u8>,
    /// FlagDefault.
    pub(crate) default: bool,
    /// FlagForced.
    pub(crate) forced: bool,
    /// LanguageBCP47, else Language.
    pub(crate) language: Option<String>,
    /// Name.
    pub(crate) name: Option<String>,
    /// DefaultDuration: nanoseconds of a frame.
    pub(crate) frame_ns: Option<u64>,
    /// CodecDelay: nanoseconds to subtract from every time.
    pub(crate) delay_ns: u64,
    /// The record of Dolby Vision among the BlockAdditionMappings.
    pub(crate) dolby_vision: Option<[u8; 24]>,
    /// How the frames' bytes were transformed.
    pub(crate) encoding: Encoding,
    /// Present for video.
    pub(crate) video: VideoEntry,
    /// Present for audio.
    pub(crate) audio: AudioEntry,
}

/// TrackType.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 1
    Video,
    /// 2
    Audio,
    /// 17
    Subtitle,
    /// Buttons, metadata and other kinds.
    #[default]
    Other,
}

/// ContentEncodings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The frames are stored unchanged.
    #[default]
    None,
    /// These bytes were removed from the start of every frame (algorithm 3).
    Stripped(Vec<u8>),
    /// Frames are compressed in a way that Reel does not decompress.
    Compressed(&'static str),
    /// Frames are encrypted.
    Encrypted(&'static str),
}

impl Entry {
    /// How the frames of pictures, sound or subtitles are encrypted, if they are.
    pub(crate) fn encrypted(&self) -> Option<&'static str> {
        match self.encoding {
            Encoding::Encrypted(scheme) if self.kind != Kind::Other => Some(scheme),
            _ => None,
        }
    }
}

/// The Video element.
#[derive(Clone, Debug, Default)]
pub(crate) struct VideoEntry {
    /// PixelWidth and PixelHeight less the cropping.
    pub(crate) visible: (u64, u64),
    /// PixelWidth and PixelHeight.
    pub(crate) pixels: (u64, u64),
    /// DisplayWidth and DisplayHeight, if they are pixels or an aspect ratio.
    pub(crate) display: Option<(u64, u64)>,
    /// Colour.
    pub(crate) colour: Option<Colour>,
    /// MasteringMetadata, MaxCLL and MaxFALL, and whether their values are impossible.
    pub(crate) hdr: (Hdr, bool),
    /// Clockwise rotation from ProjectionPoseRoll, rounded to a quarter turn.
    pub(crate) rotation: u16,
}

/// The Audio element.
#[derive(Clone, Debug, Default)]
pub(crate) struct AudioEntry {
    /// SamplingFrequency.
    pub(crate) rate: f64,
    /// OutputSamplingFrequency.
    pub(crate) output_rate: Option<f64>,
    /// Channels.
    pub(crate) channels: u64,
    /// BitDepth.
    pub(crate) bits: Option<u64>,
}

/// All entries of a Tracks body.
pub(crate) fn entries(tracks: &[u8]) -> Result<Vec<Entry>, MediaError> {
    let mut found: Vec<Entry> = Vec::new();
    for (_, body) in elements(tracks).filter(|(id, _)| *id == ids::TRACK_ENTRY) {
        if found.len() == limits::TRACKS {
            let value = found.len() as u64 + 1;
            return Err(MediaError::Limit { what: "number of tracks", value, limit: limits::TRACKS as u64 });
        }
        let entry = Entry::parse(body)?;
        if found.iter().all(|other| other.number != entry.number) {
            found.push(entry);
        }
    }
    Ok(found)
}

impl Entry {
    fn parse(body: &[u8]) -> Result<Self, MediaError> {
        let mut entry = Self { default: true, ..Self::default() };
        entry.audio = AudioEntry { rate: 8000.0, channels: 1, ..AudioEntry::default() };
        let mut language = None;
        let mut bcp47 = None;
        for (id, body) in elements(body) {
            let number = unsigned(body);
            match id {
                ids::TRACK_NUMBER => entry.number = number.unwrap_or(0),
                ids::TRACK_TYPE => {
                    entry.kind = match number {
                        Some(1) => Kind::Video,
                        Some(2) => Kind::Audio,
                        Some(17) => Kind::Subtitle,
                        _ => Kind::Other,
                    }
                }
                ids::FLAG_DEFAULT => entry.default = number != Some(0),
                ids::FLAG_FORCED => entry.forced = number == Some(1),
                ids::DEFAULT_DURATION => entry.frame_ns = number.filter(|ns| *ns > 0),
                ids::CODEC_DELAY => entry.delay_ns = number.filter(|ns| *ns < 1_000_000_000).unwrap_or(0),
                ids::CODEC_ID => entry.codec = text(body),
                ids::NAME => entry.name = Some(text(body)).filter(|name| !name.is_empty()),
                ids::LANGUAGE => language = Some(text(body)),
                ids::LANGUAGE_BCP47 => bcp47 = Some(text(body)),
                ids::CODEC_PRIVATE => {
                    if body.len() > limits::MKV_PRIVATE_BYTES {
                        return Err(MediaError::Limit {
                            what: "decoder configuration of a track in bytes",
                            value: body.len() as u64,
                            limit: limits::MKV_PRIVATE_BYTES as u64,
                        });
                    }
                    entry.private = body.to_vec();
                }
                ids::BLOCK_ADDITION_MAPPING => {
                    entry.dolby_vision = entry.dolby_vision.or_else(|| hdr::dolby_vision(body));
                }
                ids::VIDEO => entry.video = VideoEntry::parse(body),
                ids::AUDIO => entry.audio.read(body),
                ids::CONTENT_ENCODINGS => entry.encoding = encoding(body),
                _ => {}
            }
        }
        let language = bcp47.or(language);
        entry.language = clean_language(language.as_deref().unwrap_or(DEFAULT_LANGUAGE));
        Ok(entry)
    }
}

impl VideoEntry {
    fn parse(body: &[u8]) -> Self {
        let mut video = Self::default();
        let (mut crop_x, mut crop_y) = (0u64, 0u64);
        let (mut display_width, mut display_height, mut unit) = (None, None, 0);
        for (id, body) in elements(body) {
            let number = unsigned(body).unwrap_or(0);
            match id {
                ids::PIXEL_WIDTH => video.pixels.0 = number,
                ids::PIXEL_HEIGHT => video.pixels.1 = number,
                ids::PIXEL_CROP_LEFT | ids::PIXEL_CROP_RIGHT => crop_x = crop_x.saturating_add(number),
                ids::PIXEL_CROP_TOP | ids::PIXEL_CROP_BOTTOM => crop_y = crop_y.saturating_add(number),
                ids::DISPLAY_WIDTH => display_width = Some(number).filter(|width| *width > 0),
                ids::DISPLAY_HEIGHT => display_height = Some(number).filter(|height| *height > 0),
                ids::DISPLAY_UNIT => unit = number,
                ids::COLOUR => (video.colour, video.hdr) = (colour(body), hdr::colour(body)),
                ids::PROJECTION => video.rotation = rotation(body),
                _ => {}
            }
        }
        let visible = |pixels: u64, crop: u64| if crop < pixels { pixels - crop } else { pixels };
        video.visible = (visible(video.pixels.0, crop_x), visible(video.pixels.1, crop_y));
        // Unit 4 is "unknown"; the others all state a shape.
        video.display = display_width.zip(display_height).filter(|_| unit < 4);
        video
    }
}

impl AudioEntry {
    fn read(&mut self, body: &[u8]) {
        for (id, body) in elements(body) {
            match id {
                ids::SAMPLING_FREQUENCY => self.rate = float(body).unwrap_or(self.rate),
                ids::OUTPUT_SAMPLING_FREQUENCY => self.output_rate = float(body),
                ids::CHANNELS => self.channels = unsigned(body).unwrap_or(self.channels),
                ids::BIT_DEPTH => self.bits = unsigned(body),
                _ => {}
            }
        }
    }
}

fn colour(body: &[u8]) -> Option<Colour> {
    let point = |wanted: u32| {
        let found = elements(body).find(|(id, _)| *id == wanted).and_then(|(_, body)| unsigned(body));
        found.and_then(|value| u16::try_from(value).ok())
    };
    let stated = Colour {
        primaries: point(ids::PRIMARIES).unwrap_or(2),
        transfer: point(ids::TRANSFER).unwrap_or(2),
        matrix: point(ids::MATRIX_COEFFICIENTS).unwrap_or(2),
        full_range: point(ids::RANGE) == Some(2),
    };
    let silent = (stated.primaries, stated.transfer, stated.matrix) == (2, 2, 2) && !stated.full_range;
    (!silent).then_some(stated)
}

/// ProjectionPoseRoll counts degrees counter-clockwise (RFC 9559 section 5.1.4.1.28.46).
fn rotation(body: &[u8]) -> u16 {
    let roll = elements(body).find(|(id, _)| *id == ids::PROJECTION_ROLL).and_then(|(_, body)| float(body));
    let quarters = (-roll.unwrap_or(0.0) / 90.0).round().rem_euclid(4.0);
    // Four values only, all exact.
    quarters as u16 * 90
}

fn encoding(body: &[u8]) -> Encoding {
    let mut result = Encoding::None;
    for (_, body) in elements(body).filter(|(id, _)| *id == ids::CONTENT_ENCODING) {
        let (mut scope, mut kind, mut compression, mut encryption) = (1, 0, None, None);
        for (id, body) in elements(body) {
            match id {
                ids::CONTENT_ENCODING_SCOPE => scope = unsigned(body).unwrap_or(1),
                ids::CONTENT_ENCODING_TYPE => kind = unsigned(body).unwrap_or(0),
                ids::CONTENT_COMPRESSION => compression = Some(body),
                ids::CONTENT_ENCRYPTION => encryption = Some(body),
                _ => {}
            }
        }
        // Bit 0 of the scope: the frames. Encodings of the configuration alone do not occur in
        // practice.
        if scope & 1 == 0 {
            continue;
        }
        let next = if kind == 1 || encryption.is_some() { cipher(encryption) } else { packing(compression) };
        result = match (result, next) {
            (Encoding::None, next) => next,
            (_, Encoding::Encrypted(scheme)) | (Encoding::Encrypted(scheme), _) => {
                Encoding::Encrypted(scheme)
            }
            // Two compressions, one over the other: no known tool writes this.
            _ => Encoding::Compressed("several methods at once"),
        };
    }
    result
}

fn packing(body: Option<&[u8]>) -> Encoding {
    let (mut algorithm, mut settings) = (0, &[][..]);
    for (id, body) in elements(body.unwrap_or(&[])) {
        match id {
            ids::CONTENT_COMPRESSION_ALGORITHM => algorithm = unsigned(body).unwrap_or(0),
            ids::CONTENT_COMPRESSION_SETTINGS => settings = body,
            _ => {}
        }
    }
    match algorithm {
        0 => Encoding::Compressed("zlib"),
        1 => Encoding::Compressed("bzip2"),
        2 => Encoding::Compressed("LZO"),
        3 if settings.len() <= limits::MKV_STRIPPED_BYTES => Encoding::Stripped(settings.to_vec()),
        _ => Encoding::Compressed("an unknown method"),
    }
}

fn cipher(body: Option<&[u8]>) -> Encoding {
    let algorithm = elements(body.unwrap_or(&[]))
        .find(|(id, _)| *id == ids::CONTENT_ENCRYPTION_ALGORITHM)
        .and_then(|(_, body)| signed(body));
    Encoding::Encrypted(match algorithm {
        Some(1) => "DES",
        Some(2) => "3DES",
        Some(3) => "Twofish",
        Some(4) => "Blowfish",
        Some(5) => "AES",
        _ => "unknown cipher",
    })
}

/// The code if it means something. Matroska writes bibliographic codes (`ger`); the users of the
/// tracks know both kinds.
fn clean_language(code: &str) -> Option<String> {
    let sound = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (sound && !code.is_empty() && code != "und").then(|| code.to_owned())
}
