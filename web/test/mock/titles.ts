import type { Title } from "../../src/api/types.ts";
import { SECONDS, tracks } from "./media.ts";

/** What the mock shows: one film that plays, and company for the grid. */
export function mockTitles(): Title[] {
  const day = (n: number) => new Date(Date.UTC(2026, 10, 20 - n, 12)).toISOString();
  const film = (id: string, name: string, change: Partial<Title>): Title => ({
    id,
    name,
    duration_s: SECONDS,
    added: day(0),
    source: { name: `${id}.mkv`, bytes: 9_200_000 },
    bytes: 9_400_000,
    chapters: [],
    forms: [{ form: "cmaf", bytes: 9_400_000, average_bps: 1_250_000 }],
    video: tracks.video.map((v) => ({ ...v, codec: "avc1.64001f", frame_rate: 24 })),
    audio: tracks.audio.map((a, i) => ({
      track: a.track,
      language: a.language,
      name: a.name,
      codec: a.codec,
      channels: 2,
      sample_rate: 48000,
      default: i === 0,
    })),
    subtitles: tracks.subtitles.map((s) => ({
      track: s.track,
      language: s.language,
      name: s.name,
      forced: false,
    })),
    poster: `/img/${id}.jpg`,
    watch: {
      hls: `/watch/${id}/master.m3u8`,
      dash: `/watch/${id}/manifest.mpd`,
      progressive: `/watch/${id}/${id}.mp4`,
    },
    download: `/files/${id}.mp4?download`,
    warnings: [],
    ...change,
  });
  const one = (width: number, height: number, codec: string, bitrate_bps: number) => [
    { track: 0, width, height, codec, frame_rate: 25, bitrate_bps },
  ];
  const sound = (...languages: string[]) =>
    languages.map((language, i) => ({
      track: i + 1,
      language,
      name: "",
      codec: "mp4a.40.2",
      channels: 2,
      sample_rate: 48000,
      default: i === 0,
    }));
  return [
    film("harbour-lights", "Harbour lights", { added: day(1) }),
    film("the-long-way-north", "The long way north", {
      added: day(2),
      duration_s: 6245,
      bytes: 7_900_000_000,
      video: one(3840, 1600, "hvc1.2.4.L150.B0", 16_000_000),
      audio: sound("no", "en", "sv"),
    }),
    film("cafe-sur-la-place", "Café sur la place", {
      added: day(3),
      duration_s: 5412,
      bytes: 3_100_000_000,
      video: one(1920, 1080, "avc1.640028", 4_600_000),
      audio: sound("fr"),
      subtitles: [],
    }),
    film(
      "lecture-14-striped-volumes",
      "Lecture 14: striped volumes, parity, and why a disk that answers late is worse than one that is dead",
      {
        added: day(4),
        duration_s: 3127,
        bytes: 610_000_000,
        video: one(1280, 720, "avc1.64001f", 1_500_000),
        audio: sound("und"),
        subtitles: [],
        poster: "/img/lecture-14-striped-volumes.svg",
      },
    ),
    film("tide", "Tide", {
      forms: [
        { form: "cmaf", bytes: 290_000_000, average_bps: 3_000_000 },
        { form: "ts", bytes: 300_000_000, average_bps: 3_100_000, peak_bps: 5_000_000 },
      ],
      added: day(5),
      duration_s: 742,
      bytes: 290_000_000,
      video: one(1920, 800, "av01.0.08M.08", 3_000_000),
      audio: [],
      subtitles: [],
    }),
    film("sunday-football-final", "Sunday football: the final", {
      added: day(6),
      duration_s: 7020,
      bytes: 5_300_000_000,
      video: one(1920, 1080, "avc1.640028", 6_000_000),
      audio: sound("en"),
    }),
    film("grandmother-1987", "Grandmother 1987", {
      added: day(7),
      duration_s: 1894,
      bytes: 410_000_000,
      video: one(720, 576, "avc1.4d401e", 1_700_000),
      audio: sound("de"),
      subtitles: [],
      poster: "",
    }),
    film("ueber-den-fluss", "Über den Fluss", {
      added: day(8),
      duration_s: 5980,
      bytes: 2_700_000_000,
      video: one(1280, 720, "vp09.00.31.08", 3_400_000),
      audio: sound("de", "en"),
    }),
  ];
}
