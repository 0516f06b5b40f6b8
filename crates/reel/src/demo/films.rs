//! The films of `reel demo`: short, different from each other, drawn by ffmpeg's own generators.

use std::path::{Path, PathBuf};

use super::ffmpeg::{self, Job};
use crate::failure::Failure;
use crate::progress::{Meter, Unit};

/// Length of every film.
pub(super) const FILM_S: u32 = 40;

/// Frames per second of every film.
const FRAME_RATE: u32 = 25;

/// A film on disk: one title, in one or several renditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Film {
    /// Its name for people.
    pub(super) name: &'static str,
    /// Its files; the first is the largest picture.
    pub(super) files: Vec<PathBuf>,
}

/// What a film is made of.
struct Recipe {
    name: &'static str,
    /// ffmpeg source and filters, up to a picture of the first size in `pictures`.
    source: &'static str,
    /// Sizes, each a file; key frames lie at the same times in all of them.
    pictures: &'static [Picture],
    sounds: &'static [Sound],
    captions: &'static [(&'static str, &'static str)],
}

struct Picture {
    file: &'static str,
    width: u32,
    height: u32,
    /// Constant rate factor of x264: less is better.
    quality: u32,
}

/// Four chords, six seconds each, over and over.
struct Sound {
    language: &'static str,
    label: &'static str,
    /// Frequencies of the first chord.
    chord_hz: [f32; 3],
    /// What each chord's frequencies are multiplied by.
    steps: [f32; 4],
}

const RECIPES: [Recipe; 4] = [
    // An adaptive ladder.
    Recipe {
        name: "Evening Colours",
        source: "gradients=s=960x540:r=25:n=4:speed=0.012:type=spiral:seed=7\
            :c0=0x0b1d51:c1=0xd94f70:c2=0xf7b267:c3=0x2a9d8f,scale=1920:1080:flags=bicubic,noise=alls=3:allf=t",
        pictures: &[
            Picture { file: "evening-colours-1080.mp4", width: 1920, height: 1080, quality: 24 },
            Picture { file: "evening-colours-720.mp4", width: 1280, height: 720, quality: 25 },
            Picture { file: "evening-colours-480.mp4", width: 854, height: 480, quality: 26 },
        ],
        sounds: &[Sound {
            language: "und",
            label: "Stereo",
            chord_hz: [220.0, 277.18, 329.63],
            steps: [1.0, 0.8909, 0.7492, 0.8409],
        }],
        captions: &[],
    },
    // Two languages and captions, in Matroska.
    Recipe {
        name: "Seahorse Valley",
        source: "mandelbrot=s=640x360:r=25:start_x=-0.743643887037151:start_y=0.13182590420533:start_scale=3\
            :end_scale=0.00003:end_pts=1100:maxiter=2000:inner=black:outer=normalized_iteration_count,\
            format=gbrp,extractplanes=g,format=gray,gblur=sigma=0.7,format=yuv444p,pseudocolor=preset=magma,\
            scale=1280:720:flags=bicubic",
        pictures: &[Picture { file: "seahorse-valley.mkv", width: 1280, height: 720, quality: 25 }],
        sounds: &[
            Sound {
                language: "eng",
                label: "English",
                chord_hz: [196.0, 246.94, 293.66],
                steps: [1.0, 1.3348, 0.8909, 1.1225],
            },
            Sound {
                language: "deu",
                label: "Deutsch",
                chord_hz: [146.83, 174.61, 220.0],
                steps: [1.0, 0.8909, 1.1892, 0.7492],
            },
        ],
        captions: &[
            ("We begin far away.", "00:00:02,000 --> 00:00:06,000"),
            (
                "Between the head and the body\nlies the valley of the seahorses.",
                "00:00:08,000 --> 00:00:14,500",
            ),
            ("Every spiral holds smaller spirals.", "00:00:18,000 --> 00:00:23,000"),
            ("It does not end; the film does.", "00:00:33,000 --> 00:00:38,000"),
        ],
    },
    // A transport stream.
    Recipe {
        name: "Glider Weather",
        source: "life=s=320x180:r=25:ratio=0.1:seed=11:rule=B3/S23,format=gray,lagfun=decay=0.96,\
            scale=1280:720:flags=bicubic,gblur=sigma=1.5,format=yuv444p,pseudocolor=preset=inferno",
        pictures: &[Picture { file: "glider-weather.ts", width: 1280, height: 720, quality: 27 }],
        sounds: &[Sound {
            language: "und",
            label: "Stereo",
            chord_hz: [261.63, 311.13, 392.0],
            steps: [1.0, 0.7937, 1.1892, 0.8909],
        }],
        captions: &[],
    },
    // A plain MP4 with its index at the end.
    Recipe {
        name: "Two Ripples",
        source: "nullsrc=s=160x90:r=25,format=gray,\
            geq=lum='128+42*sin(hypot(X-80-45*cos(T*0.7)\\,Y-45-25*sin(T*0.9))/3.5-T*4)\
            +42*sin(hypot(X-80+50*cos(T*0.5)\\,Y-45+30*sin(T*0.6))/4.5-T*3)+40*sin(X/15+T)',\
            scale=1280:720:flags=bicubic,format=yuv444p,pseudocolor=preset=viridis",
        pictures: &[Picture { file: "two-ripples.mp4", width: 1280, height: 720, quality: 24 }],
        sounds: &[Sound {
            language: "und",
            label: "Stereo",
            chord_hz: [174.61, 261.63, 349.23],
            steps: [1.0, 1.1225, 0.8909, 0.7492],
        }],
        captions: &[],
    },
];

/// Makes the films in `dir` that are not there yet, each `film_s` seconds long.
///
/// A film appears under its name only when it is whole, so a run that was cut short is simply continued.
///
/// # Errors
/// ffmpeg is missing or fails, or `dir` cannot be written.
pub(super) fn make(dir: &Path, film_s: u32, quiet: bool) -> Result<Vec<Film>, Failure> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::path("make the directory", dir, &error))?;
    let mut films = Vec::new();
    for recipe in &RECIPES {
        let files: Vec<PathBuf> = recipe.pictures.iter().map(|picture| dir.join(picture.file)).collect();
        if !files.iter().all(|file| file.is_file()) {
            recipe.make(dir, &files, film_s, quiet)?;
        }
        films.push(Film { name: recipe.name, files });
    }
    Ok(films)
}

impl Recipe {
    fn make(&self, dir: &Path, files: &[PathBuf], film_s: u32, quiet: bool) -> Result<(), Failure> {
        let scratch = dir.join(format!(".making-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)
            .map_err(|error| Failure::path("make the directory", &scratch, &error))?;
        let made = self.make_in(&scratch, files, film_s, quiet);
        // Whatever is left of a film that failed is of no use to anyone; the failure itself is what matters.
        let _ = std::fs::remove_dir_all(&scratch);
        made
    }

    fn make_in(&self, scratch: &Path, files: &[PathBuf], film_s: u32, quiet: bool) -> Result<(), Failure> {
        let captions = scratch.join("captions.srt");
        if !self.captions.is_empty() {
            std::fs::write(&captions, self.captions_srt())
                .map_err(|error| Failure::path("write", &captions, &error))?;
        }
        let job = Job {
            arguments: self.arguments(scratch, &captions, film_s),
            duration_ms: u64::from(film_s) * 1000,
        };
        let mut meter = Meter::new(format!("drawing {}", self.name), Unit::FilmMs, quiet);
        ffmpeg::run(&job, &mut |done_ms| meter.set(done_ms, job.duration_ms))?;
        for (picture, file) in self.pictures.iter().zip(files) {
            std::fs::rename(scratch.join(picture.file), file)
                .map_err(|error| Failure::path("name", file, &error))?;
        }
        meter.finish(&format!("drew {}", self.name));
        Ok(())
    }

    fn arguments(&self, scratch: &Path, captions: &Path, film_s: u32) -> Vec<String> {
        let mut words = Words::default();
        let length = film_s.to_string();
        words.add(&["-f", "lavfi", "-t", &length, "-i", self.source]);
        for sound in self.sounds {
            words.add(&["-f", "lavfi", "-t", &length, "-i", &sound.source()]);
        }
        if !self.captions.is_empty() {
            words.add(&["-i", &captions.to_string_lossy()]);
        }
        words.add(&["-filter_complex", &self.graph(film_s)]);
        for (index, picture) in self.pictures.iter().enumerate() {
            // Key frames every two seconds and nowhere else, so that the renditions of a title line up.
            let interval = (FRAME_RATE * 2).to_string();
            words.add(&[
                "-map",
                &format!("[v{index}]"),
                "-c:v",
                "libx264",
                "-preset",
                "superfast",
                "-bf",
                "2",
            ]);
            words.add(&["-crf", &picture.quality.to_string(), "-pix_fmt", "yuv420p"]);
            words.add(&["-g", &interval, "-keyint_min", &interval, "-sc_threshold", "0"]);
            // Sound and captions of a title come from its first file; in the others they would be left out.
            if index == 0 {
                self.add_sound_and_captions(&mut words);
            }
            words.add(&["-metadata", &format!("title={}", self.name), "-t", &length]);
            words.add(&[&scratch.join(picture.file).to_string_lossy()]);
        }
        words.0
    }

    fn add_sound_and_captions(&self, words: &mut Words) {
        for (number, sound) in self.sounds.iter().enumerate() {
            words.add(&["-map", &format!("{}:a", number + 1)]);
            words.add(&[&format!("-metadata:s:a:{number}"), &format!("language={}", sound.language)]);
            words.add(&[&format!("-metadata:s:a:{number}"), &format!("title={}", sound.label)]);
        }
        words.add(&["-c:a", "aac", "-b:a", "128k", "-ac", "2"]);
        if !self.captions.is_empty() {
            words.add(&["-map", &format!("{}:s", self.sounds.len() + 1), "-c:s", "srt"]);
            words.add(&["-metadata:s:s:0", "language=eng", "-metadata:s:s:0", "title=English"]);
        }
    }

    /// The filter graph from input 0 to one labelled picture a file.
    fn graph(&self, film_s: u32) -> String {
        let count = self.pictures.len();
        let split: String = (0..count).map(|index| format!("[s{index}]")).collect();
        let title = ffmpeg::title_font().map(|font| self.title_filter(font)).unwrap_or_default();
        let mut graph = format!(
            "[0:v]{title}fade=t=in:d=1,fade=t=out:st={}:d=1,split={count}{split}",
            film_s.saturating_sub(1)
        );
        for (index, picture) in self.pictures.iter().enumerate() {
            let Picture { width, height, .. } = picture;
            graph.push_str(&format!(";[s{index}]scale={width}:{height}:flags=bicubic,setsar=1[v{index}]"));
        }
        graph
    }

    fn title_filter(&self, font: &str) -> String {
        format!(
            "drawtext=fontfile={font}:text='{}':fontsize=h/11:fontcolor=white:shadowcolor=black@0.5:shadowx=3:shadowy=3\
             :alpha='if(lt(t,1),t,if(lt(t,7),1,max(0,8-t)))':x=(w-tw)/2:y=h*0.74,",
            self.name
        )
    }

    fn captions_srt(&self) -> String {
        let cue =
            |(number, (text, times)): (usize, &(&str, &str))| format!("{}\n{times}\n{text}\n\n", number + 1);
        self.captions.iter().enumerate().map(cue).collect()
    }
}

/// Arguments of a command, being put together.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|&word| word.to_owned()));
    }
}

impl Sound {
    /// Each chord swells and fades within its six seconds, so that no chord begins with a click.
    fn source(&self) -> String {
        let [first, second, third, fourth] = self.steps;
        let channel = |detune: f32| {
            let tones: Vec<String> =
                self.chord_hz.iter().map(|hz| format!("sin(2*PI*{}*ld(1)*t)", hz * detune)).collect();
            format!(
                "st(0,mod(t,24));st(1,if(lt(ld(0),6),{first},if(lt(ld(0),12),{second},if(lt(ld(0),18),{third},{fourth}))));\
                 0.09*sin(PI*mod(t,6)/6)*({})",
                tones.join("+")
            )
        };
        format!("aevalsrc=exprs='{}|{}':s=48000", channel(1.0), channel(1.003))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_its_own_name() {
        let mut names: Vec<&str> =
            RECIPES.iter().flat_map(|recipe| recipe.pictures.iter().map(|picture| picture.file)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn captions_are_numbered_cues() {
        let text = RECIPES[1].captions_srt();
        assert!(text.starts_with("1\n00:00:02,000 --> 00:00:06,000\nWe begin far away.\n\n2\n"), "{text}");
    }

    #[test]
    fn every_recipe_is_one_ffmpeg_understands() {
        let dir = tempfile::tempdir().unwrap();
        let films = make(dir.path(), 1, true).unwrap_or_else(|failure| panic!("{failure}"));
        for file in films.iter().flat_map(|film| &film.files) {
            assert!(std::fs::metadata(file).unwrap().len() > 1000, "{}", file.display());
        }
        // Nothing else is left: no half film, no captions.
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, films.iter().map(|film| film.files.len()).sum::<usize>());
    }

    #[test]
    fn films_that_are_there_are_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        for recipe in &RECIPES {
            for picture in recipe.pictures {
                std::fs::write(dir.path().join(picture.file), "film").unwrap();
            }
        }
        let films = make(dir.path(), FILM_S, true).unwrap();
        assert_eq!(films.len(), RECIPES.len());
        assert_eq!(films[0].files.len(), 3);
        assert_eq!(std::fs::read(&films[3].files[0]).unwrap(), b"film");
    }
}
