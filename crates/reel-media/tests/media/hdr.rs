//! Metadata of high dynamic range and Dolby Vision, from the boxes of the source to what ffprobe
//! reads of the stored forms.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::chain::{probe, publish, store};
use crate::film::Stored;
use crate::film_dir::FilmDir;
use crate::mp4::boxes::{boxed, full, rewrite, words};
use crate::oracle::{Memory, drain};
use reel_media::{Hdr, MediaError, dash, hls};
use serde_json::Value;
use std::path::{Path, PathBuf};

const PICTURES: &str = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=2 -threads 1";
const HEVC: &str = "-c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -tag:v hvc1 -color_primaries bt2020 -colorspace bt2020nc";
const X265: &str = "-x265-params log-level=none:keyint=25:pools=none:frame-threads=1";

/// P3 with D65, 1000 and 0.0001 candelas per square metre, as x265 is told and as `mdcv` has it.
const MASTER_DISPLAY: &str =
    "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";
const MDCV: [u8; 24] = [
    0x33, 0xc2, 0x86, 0xc4, 0x1d, 0x4c, 0x0b, 0xb8, 0x84, 0xd0, 0x3e, 0x80, 0x3d, 0x13, 0x40, 0x42, 0, 0x98,
    0x96, 0x80, 0, 0, 0, 1,
];

fn mdcv() -> Vec<u8> {
    boxed(b"mdcv", &MDCV)
}

fn clli() -> Vec<u8> {
    boxed(b"clli", &[0x03, 0xe8, 0x01, 0x90])
}

/// A Dolby Vision record of level 6. `layers`: RPU, enhancement and base layer from bit 2 down.
fn dolby(kind: &[u8; 4], profile: u16, layers: u16, compatibility: u8) -> Vec<u8> {
    let word = profile << 9 | 6 << 3 | layers;
    boxed(kind, &[&[1, 0], &word.to_be_bytes()[..], &[compatibility << 4], &[0; 19]].concat())
}

const RPU: u16 = 5;

fn film(film_dir: &FilmDir, name: &str, transfer: &str) -> PathBuf {
    film_dir.make(name, &format!("{PICTURES} {HEVC} -color_trc {transfer} {X265}"))
}

/// The film with boxes added to its sample entry, which gets another name.
fn changed(film: &Path, name: Option<&[u8; 4]>, boxes: &[u8]) -> Vec<u8> {
    rewrite(&std::fs::read(film).unwrap(), &mut |kind, body| {
        (kind == b"stsd").then(|| {
            let entry_name = name.map_or(&body[12..16], |name| name.as_slice());
            let entry = boxed(entry_name.try_into().unwrap(), &[&body[16..], boxes].concat());
            full(b"stsd", 0, 0, &[words(&[1]), entry].concat())
        })
    })
}

fn write(film_dir: &FilmDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = film_dir.path(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn warnings(path: &Path) -> String {
    let mut demux = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    drain(demux.as_mut()).unwrap();
    demux.warnings().join("; ")
}

/// Name of the sample entry and metadata of the picture, as ffprobe reads them.
fn seen(path: &Path) -> (String, Vec<Value>) {
    let streams = probe(path);
    let stream = &streams["streams"][0];
    let side_data = stream["side_data_list"].as_array().cloned().unwrap_or_default();
    (stream["codec_tag_string"].as_str().unwrap().to_owned(), side_data)
}

/// Stores the film and checks that both stored forms have the metadata `expected`.
fn stored_with(film_dir: &FilmDir, source: &Path, tag: &str, expected: &[Value]) -> Stored {
    let stored = store(source);
    let out = film_dir.path("out");
    publish(&stored, &out);
    for form in ["film.mp4", "0/whole.mp4"] {
        let (found, side_data) = seen(&out.join(form));
        assert_eq!((found.as_str(), side_data.as_slice()), (tag, expected), "{} {form}", source.display());
    }
    stored
}

#[test]
fn metadata_of_mp4_and_matroska_are_kept() {
    let film_dir = FilmDir::new();
    let film = film(&film_dir, "a.mp4", "smpte2084");
    let with = write(&film_dir, "hdr.mp4", &changed(&film, None, &[mdcv(), clli()].concat()));
    let (tag, mut side_data) = seen(&with);
    assert_eq!((tag.as_str(), side_data.len()), ("hvc1", 2), "{side_data:?}");
    let stored = stored_with(&film_dir, &with, "hvc1", &side_data);
    assert!(hls::master(&stored.index).contains(",VIDEO-RANGE=PQ"));
    assert!(dash::manifest(&stored.index).contains("TransferCharacteristics\" value=\"16\""));
    let matroska = film_dir.make("hdr.mkv", "-i {dir}/hdr.mp4 -c copy");
    stored_with(&film_dir, &matroska, "hvc1", &side_data);
    let video = stored.index.tracks[0].track.video.clone().unwrap();
    assert_eq!(video.hdr, Hdr { mastering: Some(MDCV), light: Some((1000, 400)), dolby_vision: None });

    // What VP9 had before: the values are fractions of powers of two.
    let vp9 = format!("{PICTURES} -c:v libvpx-vp9 -deadline realtime -cpu-used 8");
    let vp9 = film_dir.make("vp9.mp4", &vp9);
    let point = |value: f64| ((value * 65536.0).round() as u16).to_be_bytes();
    let points: Vec<u8> =
        [0.68, 0.32, 0.265, 0.69, 0.15, 0.06, 0.3127, 0.329].into_iter().flat_map(point).collect();
    let display = full(b"SmDm", 0, 0, &[points, words(&[1000 << 8, 1 << 14 >> 4])].concat());
    let light = full(b"CoLL", 0, 0, &[0x03, 0xe8, 0x01, 0x90]);
    let with = write(&film_dir, "smdm.mp4", &changed(&vp9, None, &[display, light].concat()));
    let stored = store(&with);
    let hdr = stored.index.tracks[0].track.video.as_ref().unwrap().hdr;
    let body = hdr.mastering.unwrap();
    assert_eq!(
        (body[..16].to_vec(), &body[16..20], hdr.light),
        (MDCV[..16].to_vec(), &MDCV[16..20], Some((1000, 400)))
    );
    assert_eq!(body[20..], 625u32.to_be_bytes(), "a sixteenth");
    side_data[0]["min_luminance"] = "625/10000".into();
    stored_with(&film_dir, &with, "vp09", &side_data);
}

#[test]
fn messages_of_a_transport_stream_become_boxes() {
    let film_dir = FilmDir::new();
    let arguments =
        format!("{PICTURES} {HEVC} -color_trc smpte2084 {X265}:hdr10=1:{MASTER_DISPLAY}:max-cll=1000,400");
    let stored = store(&film_dir.make("a.ts", &arguments));
    let hdr = stored.index.tracks[0].track.video.as_ref().unwrap().hdr;
    assert_eq!(hdr, Hdr { mastering: Some(MDCV), light: Some((1000, 400)), dolby_vision: None });
}

#[test]
fn dolby_vision_with_a_base_layer_is_signalled_beside_it() {
    let film_dir = FilmDir::new();
    let cases = [
        ("smpte2084", 8, 1, "dvh1.08.06/db1p", "PQ"),
        ("bt709", 8, 2, "dvh1.08.06/db2g", "SDR"),
        ("arib-std-b67", 8, 4, "dvh1.08.06/db4h", "HLG"),
        ("bt2020-10", 8, 4, "dvh1.08.06/db4g", "HLG"),
    ];
    for (number, (transfer, profile, compatibility, codec, range)) in cases.into_iter().enumerate() {
        let film = film(&film_dir, &format!("{number}.mp4"), transfer);
        let bytes = changed(&film, None, &dolby(b"dvvC", profile, RPU, compatibility));
        let source = write(&film_dir, "dolby.mp4", &bytes);
        let (_, side_data) = seen(&source);
        assert_eq!(side_data[0]["side_data_type"], "DOVI configuration record");
        let stored = stored_with(&film_dir, &source, "hvc1", &side_data);
        assert_eq!(warnings(&source), "");
        let master = hls::master(&stored.index);
        assert!(
            master.contains("CODECS=\"hvc1.2.") && master.contains(&format!("VIDEO-RANGE={range}")),
            "{master}"
        );
        assert_eq!(master.matches(&format!(",SUPPLEMENTAL-CODECS=\"{codec}\"")).count(), 2, "{master}");
        let manifest = dash::manifest(&stored.index);
        let (codec, brand) = codec.split_once('/').unwrap();
        for told in [
            format!("scte214:supplementalCodecs=\"{codec}\" scte214:supplementalProfiles=\"{brand}\""),
            "xmlns:scte214=\"urn:scte:dash:scte214-extensions\"".to_owned(),
        ] {
            assert!(manifest.contains(&told), "{manifest}");
        }
        for head in [
            stored.objects[0][..64].to_vec(),
            std::fs::read(film_dir.path("out/film.mp4")).unwrap()[..64].to_vec(),
        ] {
            assert!(head.windows(4).any(|name| name == brand.as_bytes()), "{head:?}");
        }
        let matroska = film_dir.make("dolby.mkv", "-i {dir}/dolby.mp4 -c copy -strict unofficial");
        stored_with(&film_dir, &matroska, "hvc1", &side_data);
    }
}

/// Profile 5 has colours of its own: other players must not try.
#[test]
fn dolby_vision_without_a_base_layer_is_named_as_what_it_is() {
    let film_dir = FilmDir::new();
    let film = film(&film_dir, "a.mp4", "smpte2084");
    let record = dolby(b"dvcC", 5, RPU, 0);
    for name in [None, Some(b"dvh1"), Some(b"dvhe")] {
        let source = write(&film_dir, "five.mp4", &changed(&film, name, &record));
        let (_, side_data) = seen(&source);
        let stored = stored_with(&film_dir, &source, "dvh1", &side_data);
        let master = hls::master(&stored.index);
        assert!(master.contains("CODECS=\"dvh1.05.06\"") && !master.contains("hvc1"), "{master}");
        assert!(master.contains("VIDEO-RANGE=PQ") && !master.contains("SUPPLEMENTAL"), "{master}");
        assert!(dash::manifest(&stored.index).contains("codecs=\"dvh1.05.06\""));
        assert!(
            warnings(&source).contains("only players with Dolby Vision can show it"),
            "{}",
            warnings(&source)
        );
    }
    let matroska = film_dir.make("five.mkv", "-i {dir}/five.mp4 -c copy -tag:v hvc1 -strict unofficial");
    assert!(hls::master(&store(&matroska).index).contains("CODECS=\"dvh1.05.06\""));
    assert!(warnings(&matroska).contains("only players with Dolby Vision"), "{}", warnings(&matroska));
}

#[test]
fn enhancement_layers_are_not_signalled() {
    let film_dir = FilmDir::new();
    let film = film(&film_dir, "a.mp4", "smpte2084");
    let both = write(&film_dir, "seven.mp4", &changed(&film, None, &dolby(b"dvcC", 7, 7, 6)));
    let stored = stored_with(&film_dir, &both, "hvc1", &[]);
    let master = hls::master(&stored.index);
    assert!(master.contains("VIDEO-RANGE=PQ") && !master.contains("SUPPLEMENTAL"), "{master}");
    assert!(
        warnings(&both).contains("the enhancement layer of profile 7 is not signalled"),
        "{}",
        warnings(&both)
    );
    // A track of its own for the enhancement layer: not a picture.
    let refused = |bytes: Vec<u8>| reel_media::open(Box::new(Memory(bytes))).err().unwrap();
    let alone = refused(changed(&film, None, &dolby(b"dvcC", 7, 6, 6)));
    assert!(matches!(&alone, MediaError::NoTracks(why) if why.contains("enhancement layer")), "{alone}");
    let nameless = refused(changed(&film, Some(b"dvh1"), &[]));
    assert!(matches!(&nameless, MediaError::NoTracks(why) if why.contains("`dvcC`")), "{nameless}");
    film_dir.make("two.mp4", "-i {dir}/a.mp4 -i {dir}/a.mp4 -map 0 -map 1 -c copy");
    let mut tracks = 0;
    let two = rewrite(&std::fs::read(film_dir.path("two.mp4")).unwrap(), &mut |kind, body| {
        (kind == b"stsd").then(|| {
            tracks += 1;
            let layers = if tracks == 1 { 5 } else { 6 };
            let entry = boxed(b"hvc1", &[&body[16..], &dolby(b"dvcC", 7, layers, 6)].concat());
            full(b"stsd", 0, 0, &[words(&[1]), entry].concat())
        })
    });
    let demux = reel_media::open(Box::new(Memory(two))).unwrap();
    assert_eq!(demux.tracks().len(), 1);
    assert!(
        demux.warnings().iter().any(|warning| warning.contains("it is the enhancement layer")),
        "{:?}",
        demux.warnings()
    );
}

#[test]
fn impossible_values_are_ignored() {
    let film_dir = FilmDir::new();
    let film = film(&film_dir, "a.mp4", "smpte2084");
    let open = |bytes: Vec<u8>| reel_media::open(Box::new(Memory(bytes))).unwrap();
    let hdr = |bytes: Vec<u8>| {
        let demux = open(bytes);
        (demux.tracks()[0].video.as_ref().unwrap().hdr, demux.warnings().join("; "))
    };
    // Boxes that are too short, or of a codec that they do not fit.
    for (name, whole) in [(b"mdcv", 24), (b"clli", 4), (b"SmDm", 28), (b"CoLL", 8), (b"dvcC", 5)] {
        for bytes in [0, 1, whole - 1] {
            let (found, warnings) = hdr(changed(&film, None, &boxed(name, &vec![1; bytes])));
            assert_eq!(found, Hdr::default(), "{bytes}");
            assert!(warnings.contains(std::str::from_utf8(name).unwrap()), "{warnings}");
        }
    }
    let huge = full(b"SmDm", 0, 0, &[0xff; 24]);
    assert_eq!(hdr(changed(&film, None, &huge)).0, Hdr::default());
    let (_, warnings) = hdr(changed(&film, None, &dolby(b"dvvC", 10, RPU, 1)));
    assert!(warnings.contains("does not fit its codec"), "{warnings}");

    write(&film_dir, "hdr.mp4", &changed(&film, None, &[mdcv(), clli()].concat()));
    let matroska = std::fs::read(film_dir.make("hdr.mkv", "-i {dir}/hdr.mp4 -c copy")).unwrap();
    assert_eq!(hdr(matroska.clone()).0.mastering, Some(MDCV));
    // The red point and the largest luminance.
    for id in [[0x55, 0xd1], [0x55, 0xd9]] {
        let at = matroska.windows(2).position(|two| two == id).unwrap() + 3;
        for value in [f64::NAN, f64::INFINITY, -1.0, 1e12] {
            let mut bytes = matroska.clone();
            match bytes[at - 1] {
                0x84 => bytes[at..at + 4].copy_from_slice(&(value as f32).to_be_bytes()),
                _ => bytes[at..at + 8].copy_from_slice(&value.to_be_bytes()),
            }
            let (found, warnings) = hdr(bytes);
            assert_eq!((found.mastering, found.light), (None, Some((1000, 400))), "{value}");
            assert!(warnings.contains("impossible"), "{warnings}");
        }
    }
    let at = matroska.windows(2).position(|two| two == [0x55, 0xbc]).unwrap() + 2;
    let mut bytes = matroska.clone();
    // A light level of more than 16 bits: the element takes in the head of the next one.
    bytes[at] = 0x85;
    assert_eq!(hdr(bytes).0.light, None);
}
