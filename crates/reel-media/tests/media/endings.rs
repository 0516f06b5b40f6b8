//! Whether files are whole, as their containers say, of films that ffmpeg made.

use crate::film_dir::FilmDir;
use reel_media::{Ending, Source, ending};
use std::io;

struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = self.0.get(from..from + target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn containers_say_whether_a_film_is_whole() {
    let dir = FilmDir::new();
    let film = "-f lavfi -i testsrc2=size=160x90:rate=25:d=4 -f lavfi -i sine=440:d=4 -c:v libx264 -preset ultrafast -g 25 -c:a aac";
    let vp8 = "-f lavfi -i testsrc2=size=160x90:rate=25:d=4 -c:v libvpx -deadline realtime";
    let fragments = "-movflags frag_keyframe+empty_moov+default_base_moof";
    for (name, arguments, whole, cut) in [
        ("index-last.mp4", film.to_owned(), Ending::Whole, Ending::Cut),
        ("index-first.mp4", format!("{film} -movflags faststart"), Ending::Whole, Ending::Cut),
        ("film.mov", film.to_owned(), Ending::Whole, Ending::Cut),
        ("fragments.mp4", format!("{film} {fragments}"), Ending::Whole, Ending::Cut),
        ("no-index.mp4", format!("{film} {fragments}+skip_trailer"), Ending::Unsaid, Ending::Cut),
        ("film.mkv", film.to_owned(), Ending::Whole, Ending::Cut),
        ("live.mkv", format!("{film} -live 1"), Ending::Unsaid, Ending::Cut),
        ("film.webm", vp8.to_owned(), Ending::Whole, Ending::Cut),
        ("film.ts", film.to_owned(), Ending::Unsaid, Ending::Unsaid),
    ] {
        let bytes = std::fs::read(dir.make(name, &arguments)).expect("a film");
        assert_eq!(ending(&mut Bytes(&bytes)).expect("readable"), whole, "{name}");
        // Inside of the media, wherever a box or an element ends.
        let third = bytes.len() / 3;
        let of = |length: usize| ending(&mut Bytes(&bytes[..length])).expect("readable");
        assert!((third..third + 40).any(|length| of(length) == cut), "{name}");
        for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
            assert_ne!(of(length), Ending::Whole, "{name}: {length} of {} bytes", bytes.len());
        }
    }
}
