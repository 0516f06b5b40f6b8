//! Makes the film of a variant with ffmpeg, and what it is expected to show.

use super::damage;
use super::variant::{Container, Oddity, Pictures, Sound, Variant};
use crate::foreign::rig::run;
use reel_testkit::Rng;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A film, and what it is expected to show.
pub(crate) struct Made {
    pub(crate) file: PathBuf,
    pub(crate) truth: Truth,
}

/// What a film is expected to show.
pub(crate) enum Truth {
    /// What ffmpeg decodes from it.
    Itself,
    /// What ffmpeg decodes from another film: that one was changed in a way that takes nothing from
    /// it, but that ffmpeg shows otherwise.
    Of(PathBuf),
    /// The pictures that ffmpeg decodes from it, with the sound that it decodes from another film.
    /// That one has the same sound, but ffmpeg does not decode all of it from this one.
    WithSoundOf(PathBuf),
    /// These one after the other, without a gap that the clocks claim.
    Joined(Vec<PathBuf>),
    /// Another film, except for what was lost.
    Damaged(PathBuf),
    /// What ffmpeg decodes from it as from another film, of which it is a part. The rest is what
    /// programs make of pictures that are not there, or not as a whole. Up to so many pictures at
    /// the end may be missing.
    Cut(PathBuf, usize),
}

impl Variant {
    /// Makes the film in a directory.
    pub(crate) fn make(&self, dir: &Path) -> Made {
        let file = dir.join(format!("{}.{}", self.name(), self.container.extension()));
        let other = |what: &str| dir.join(format!("{}-{what}.{}", self.name(), self.container.extension()));
        let mut rng = self.rng.clone();
        let film = Film::of(self);
        let changed = |change: &mut dyn FnMut(Vec<u8>, usize) -> Vec<u8>| {
            let plain = other("plain");
            film.make(&plain);
            let bytes = std::fs::read(&plain).unwrap();
            std::fs::write(&file, change(bytes, self.packet_bytes())).unwrap();
            plain
        };
        // Makes the film, and beside it the same without the oddity, in a container.
        let made_beside = |container: Container| {
            let plain = other("plain");
            Film::of(&Variant { container, oddity: Oddity::Nothing, ..self.clone() }).make(&plain);
            film.make(&file);
            plain
        };
        let truth = match self.oddity {
            Oddity::Trimmed => {
                let whole = other("whole");
                Film { seconds: self.seconds + 2, ..Film::of(self) }.make(&whole);
                let from = self.time_of(rng.range(8, 40));
                self.copy(&["-ss", &from], &whole, &[], &file);
                Truth::Itself
            }
            Oddity::Rotated => {
                let upright = other("upright");
                film.make(&upright);
                let rotate = format!("rotate={}", [90, 180, 270][rng.below(3) as usize]);
                self.copy(&[], &upright, &["-metadata:s:v:0", &rotate], &file);
                Truth::Itself
            }
            // ffmpeg shows the two sides of the wrap 26 hours apart with -copyts.
            Oddity::Wrap => {
                let plain = other("plain");
                film.make(&plain);
                Film { offset: Some(WRAP_S - 1.4 - 1.0), ..Film::of(self) }.make(&file);
                Truth::Of(plain)
            }
            // ffmpeg shows fragments with negative composition offsets late by the largest of them.
            Oddity::Cmaf | Oddity::NegativeOffsets if self.container == Container::Fragmented => {
                Truth::Of(made_beside(Container::Mp4))
            }
            // ffmpeg writes some frames of sound with the time of the next one, and does not decode
            // all frames of equal times.
            Oddity::FragmentEachFrame => Truth::WithSoundOf(made_beside(Container::Fragmented)),
            // ffmpeg drops packets whose counter stands still.
            Oddity::StandingCounters => Truth::Of(changed(&mut damage::standing_counters)),
            Oddity::CopiedPackets => Truth::Of(changed(&mut damage::copied_packets)),
            Oddity::Garbage => {
                Truth::Of(changed(&mut |bytes, packet| damage::garbage(bytes, packet, &mut rng)))
            }
            Oddity::LostPackets => {
                Truth::Damaged(changed(&mut |bytes, packet| damage::lost_packets(bytes, packet, &mut rng)))
            }
            Oddity::CutAnywhere => {
                Truth::Cut(changed(&mut |bytes, _| damage::without_beginning(bytes, &mut rng)), 0)
            }
            Oddity::CutOff | Oddity::LiveCutOff => {
                let whole = changed(&mut |bytes, _| damage::without_end(bytes, &mut rng));
                Truth::Cut(whole, self.missing_at_end())
            }
            // ffmpeg shows the times of the clocks.
            Oddity::OverlappingParts | Oddity::PartsWithGap | Oddity::PartsFromZero => {
                let parts = [other("first"), other("second")];
                self.join(&parts, &file, &mut rng);
                Truth::Joined(parts.to_vec())
            }
            _ => {
                film.make(&file);
                Truth::Itself
            }
        };
        Made { file, truth }
    }

    /// When a picture is shown, in seconds, less a fifth of a millisecond. ffmpeg does not show a
    /// picture of which an edit list leaves only a part, so what is left must be too short to see.
    fn time_of(&self, picture: u64) -> String {
        let (number, each) = self.rate.split_once('/').unwrap_or((self.rate, "1"));
        let [number, each] = [number, each].map(|text| text.parse::<f64>().unwrap());
        format!("{:.6}", picture as f64 * each / number - 0.0002)
    }

    /// Makes two films whose clocks do not follow each other, and joins them.
    fn join(&self, parts: &[PathBuf; 2], file: &Path, rng: &mut Rng) {
        let length = self.seconds as f64;
        let offset = match self.oddity {
            Oddity::OverlappingParts => length - 0.1 * rng.range(1, 9) as f64,
            Oddity::PartsWithGap => length + 30.0 * rng.range(1, 900) as f64,
            _ => 0.0,
        };
        Film::of(self).make(&parts[0]);
        Film { offset: Some(offset), seed: 7, seconds: self.seconds + 1, ..Film::of(self) }.make(&parts[1]);
        let bytes = parts.each_ref().map(|part| std::fs::read(part).unwrap()).concat();
        std::fs::write(file, bytes).unwrap();
    }

    /// Pictures that may be missing where a film is cut off: of a fragment that is not whole,
    /// nothing is taken.
    fn missing_at_end(&self) -> usize {
        if self.container == Container::Fragmented { self.key_distance as usize } else { 0 }
    }

    /// Bytes of a packet of a transport stream in this container.
    fn packet_bytes(&self) -> usize {
        if self.container == Container::M2ts { 192 } else { 188 }
    }

    /// Copies all tracks into a new file of the same container.
    fn copy(&self, before: &[&str], from: &Path, after: &[&str], to: &Path) {
        let mut ffmpeg = ffmpeg();
        ffmpeg.args(before).arg("-i").arg(from).args(["-map", "0", "-c", "copy"]).args(after);
        ffmpeg.args(muxer(self)).arg(to);
        run(&mut ffmpeg);
    }
}

/// When the clock of transport streams wraps, in seconds.
const WRAP_S: f64 = (1u64 << 33) as f64 / 90_000.0;

/// What ffmpeg is told for one file.
struct Film<'a> {
    variant: &'a Variant,
    seconds: u64,
    /// Where the film begins on its own clock.
    offset: Option<f64>,
    /// Of the noise.
    seed: u64,
}

impl<'a> Film<'a> {
    fn of(variant: &'a Variant) -> Film<'a> {
        let seconds = if variant.oddity == Oddity::Slow { 6 } else { variant.seconds };
        let offset = (variant.oddity == Oddity::Offset).then_some(7.25);
        Film { variant, seconds, offset, seed: variant.number }
    }

    fn make(&self, file: &Path) {
        let mut ffmpeg = ffmpeg();
        ffmpeg.args(self.inputs(file));
        ffmpeg.args(self.maps()).args(self.pictures()).args(self.sounds());
        ffmpeg.args(muxer(self.variant));
        if let Some(offset) = self.offset {
            ffmpeg.args(["-output_ts_offset", &offset.to_string()]);
        }
        run(ffmpeg.arg(file));
    }

    /// Moving pictures, and noise that repeats nowhere, so that each part of it can be recognized.
    fn inputs(&self, file: &Path) -> Vec<String> {
        let Film { variant, seconds, seed, .. } = self;
        let late = |oddity, by: &str| match variant.oddity == oddity {
            true => format!("-itsoffset {by} "),
            false => String::new(),
        };
        let (width, height) = match (variant.oddity, variant.pictures) {
            (Oddity::OddSize, Pictures::Vp9 | Pictures::Av1) => (161, 91),
            (Oddity::OddSize, _) => (162, 94),
            _ => variant.size,
        };
        let rate = if variant.oddity == Oddity::Slow { "1/2" } else { variant.rate };
        let sound_s = match variant.oddity {
            Oddity::ShortSound => *seconds as f64 / 2.0,
            Oddity::LongSound => *seconds as f64 + 1.5,
            _ => *seconds as f64,
        };
        let noise = |seed: u64| {
            format!(
                "-f lavfi -i anoisesrc=duration={sound_s}:color=pink:amplitude=0.4:sample_rate=48000:seed={seed}"
            )
        };
        let line = format!(
            "{}-f lavfi -i testsrc2=size={width}x{height}:rate={rate}:duration={seconds} {}{} {}",
            late(Oddity::LatePictures, "1.1"),
            late(Oddity::LateSound, "1.3"),
            noise(seed + 1000),
            noise(seed + 2000),
        );
        let mut inputs = words(&line);
        if variant.oddity == Oddity::Subtitles {
            let subtitles = file.with_extension("srt");
            std::fs::write(&subtitles, SUBTITLES).unwrap();
            inputs.extend(["-i".to_owned(), subtitles.to_string_lossy().into_owned()]);
        }
        inputs
    }

    fn maps(&self) -> Vec<String> {
        let variant = self.variant;
        let mut maps = String::new();
        if variant.has_pictures() {
            maps += " -map 0";
        }
        if variant.has_sound() {
            maps += " -map 1";
        }
        if variant.oddity == Oddity::TwoSounds {
            maps += " -map 2";
        }
        if variant.oddity == Oddity::Subtitles {
            let codec = if variant.container == Container::Mkv { "srt" } else { "mov_text" };
            maps += &format!(" -map 3 -c:s {codec}");
        }
        words(&maps)
    }

    fn pictures(&self) -> Vec<String> {
        let variant = self.variant;
        if !variant.has_pictures() {
            return Vec::new();
        }
        let keys = match variant.oddity {
            Oddity::OneKeyFrame => 10_000,
            Oddity::OpenGop => 12,
            _ => variant.key_distance,
        };
        let own = match variant.oddity {
            Oddity::OpenGop => ":open-gop=1",
            Oddity::IntraRefresh => ":intra-refresh=1",
            Oddity::Interlaced => ":tff=1",
            Oddity::Slices => ":slices=4",
            _ => "",
        };
        let x264 = |rest: &str| {
            format!("-c:v libx264 {rest} -g {keys} -pix_fmt yuv420p -x264-params scenecut=0{own}")
        };
        let mut line = match variant.pictures {
            Pictures::H264 => x264("-preset ultrafast -bf 0"),
            Pictures::H264B => x264("-preset veryfast -bf 3"),
            Pictures::Hevc => format!(
                "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=none:pools=none:frame-threads=1:bframes=3:scenecut=0:keyint={keys}{}",
                if variant.oddity == Oddity::OpenGop { ":open-gop=1" } else { "" }
            ),
            Pictures::Vp9 if variant.oddity == Oddity::HiddenPictures => {
                format!(
                    "-c:v libvpx-vp9 -deadline good -cpu-used 5 -auto-alt-ref 1 -lag-in-frames 12 -pix_fmt yuv420p -g {keys}"
                )
            }
            Pictures::Vp9 => {
                format!("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p -g {keys}")
            }
            // ffmpeg does not write what libaom makes in real time as a live Matroska file.
            Pictures::Av1 => {
                format!("-c:v libsvtav1 -preset 12 -svtav1-params lp=1 -pix_fmt yuv420p -g {keys}")
            }
        };
        if matches!(variant.pictures, Pictures::Hevc)
            && matches!(variant.container, Container::Mp4 | Container::Fragmented | Container::Mov)
        {
            line += " -tag:v hvc1";
        }
        line += match variant.oddity {
            Oddity::VariableRate => {
                " -vf settb=1/90000,setpts='PTS+0.3*mod(N\\,3)/FRAME_RATE/TB' -fps_mode vfr -enc_time_base -1"
            }
            Oddity::PictureGap => " -vf select='not(between(t\\,0.5\\,1.4))' -fps_mode vfr",
            Oddity::Interlaced => " -flags +ildct+ilme",
            _ => "",
        };
        words(&line.replace('\'', ""))
    }

    fn sounds(&self) -> Vec<String> {
        let variant = self.variant;
        if !variant.has_sound() {
            return Vec::new();
        }
        let coder = |track: usize, sound| {
            let name = match sound {
                Sound::Aac | Sound::AacSurround => "aac",
                Sound::Mp3 => "libmp3lame",
                Sound::Ac3 => "ac3",
                Sound::Eac3 => "eac3",
                Sound::Opus => "libopus",
                Sound::Flac => "flac -strict -2",
            };
            let is_aac = matches!(sound, Sound::Aac | Sound::AacSurround);
            // The decoder makes noise that is substituted for coded noise from its state after all
            // frames before, of which a cut leaves fewer.
            let exact = if is_aac && variant.oddity == Oddity::Trimmed { " -aac_pns 0" } else { "" };
            let channels = if sound == Sound::AacSurround { 6 } else { 1 };
            format!(" -c:a:{track} {name} -ac:a:{track} {channels}{exact}")
        };
        let mut line = coder(0, variant.sound);
        if variant.oddity == Oddity::TwoSounds {
            line += &coder(1, variant.second_sound);
        }
        if variant.oddity == Oddity::SoundGap {
            line += " -bsf:a:0 noise=drop=between(pts*tb\\,0.6\\,1.2)";
        }
        words(&line)
    }
}

fn ffmpeg() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-threads", "1", "-filter_threads", "1"]);
    ffmpeg
}

/// Options of the muxer.
fn muxer(variant: &Variant) -> Vec<String> {
    // The header of AC-3 is only known with the first frame.
    let is_ac3 = |sound| matches!(sound, Sound::Ac3 | Sound::Eac3);
    let second = variant.oddity == Oddity::TwoSounds && is_ac3(variant.second_sound);
    let waits = variant.has_sound() && (is_ac3(variant.sound) || second);
    let fragments = if waits { "delay_moov+default_base_moof" } else { "empty_moov+default_base_moof" };
    let line = match (variant.container, variant.oddity) {
        (Container::Mp4, Oddity::FirstHeader) => "-movflags +faststart".to_owned(),
        (Container::Mp4, Oddity::NegativeOffsets) => "-movflags +negative_cts_offsets".to_owned(),
        (Container::Mp4, Oddity::CoarseTimescale) => "-video_track_timescale 1000".to_owned(),
        (Container::Fragmented, oddity) => match oddity {
            Oddity::FragmentEachFrame => format!("-movflags frag_every_frame+{fragments}"),
            Oddity::FragmentByTime => format!("-frag_duration 700000 -movflags {fragments}"),
            Oddity::FragmentEachTrack => format!("-movflags frag_keyframe+separate_moof+{fragments}"),
            Oddity::Cmaf => "-movflags frag_keyframe+cmaf".to_owned(),
            Oddity::NegativeOffsets => format!("-movflags frag_keyframe+negative_cts_offsets+{fragments}"),
            // With an edit list that fits the first fragment.
            Oddity::LateSound | Oddity::LatePictures | Oddity::Offset => {
                "-movflags frag_keyframe+delay_moov+default_base_moof".to_owned()
            }
            _ => format!("-movflags frag_keyframe+{fragments}"),
        },
        (Container::Mkv | Container::Webm, Oddity::Live | Oddity::LiveCutOff) => "-live 1".to_owned(),
        (Container::Mkv | Container::Webm, Oddity::ShortClusters) => "-cluster_time_limit 150".to_owned(),
        (Container::Ts | Container::M2ts, oddity) => {
            let disc = if variant.container == Container::M2ts { " -mpegts_m2ts_mode 1" } else { "" };
            let own = match oddity {
                Oddity::FullRate => " -muxrate 6000000",
                Oddity::PacketEachFrame => " -pes_payload_size 0 -omit_video_pes_length 0",
                _ => "",
            };
            format!("-f mpegts{disc}{own}")
        }
        _ => String::new(),
    };
    words(&line)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

const SUBTITLES: &str =
    "1\n00:00:00,500 --> 00:00:01,500\nA line\n\n2\n00:00:01,700 --> 00:00:09,000\nAnother\n";
