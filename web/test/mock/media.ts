/** Films for the mock: made once by ffmpeg, kept in test-results/media. */

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/** Longer than a test takes on a busy machine: a film that ended has nothing left to play. */
export const SECONDS = 120;
const RATE = 24;
/** Quick to make, with the frame order and the tools of the profile High, as most films have. */
const h264 = [
  "-c:v",
  "libx264",
  "-preset",
  "ultrafast",
  "-bf",
  "2",
  "-coder",
  "1",
  "-x264-params",
  "8x8dct=1",
];
/** To be raised when the films change. */
const RECIPE = 4;

/**
 * The one film every mock title plays: two renditions, two sound tracks of different codecs, two
 * subtitle tracks.
 */
export const tracks = {
  video: [
    { track: 0, width: 1280, height: 720, bitrate_bps: 1_600_000 },
    { track: 1, width: 640, height: 360, bitrate_bps: 500_000 },
  ],
  audio: [
    {
      track: 2,
      language: "en",
      name: "English",
      hz: 330,
      group: "audio-aac",
      codec: "mp4a.40.2",
      encoder: ["-c:a", "aac", "-b:a", "96k"],
    },
    {
      track: 3,
      language: "de",
      name: "German",
      hz: 440,
      group: "audio-opus",
      codec: "opus",
      encoder: ["-c:a", "libopus", "-b:a", "96k"],
    },
  ],
  subtitles: [
    { track: 4, language: "en", name: "English", words: "Light number" },
    { track: 5, language: "de", name: "German", words: "Licht Nummer" },
  ],
};

/**
 * Directory with `{track}/init.mp4`, `{track}/{n}.m4s`, `{track}/text.vtt`, `film.mp4`,
 * `upload.mkv`, `poster-{i}.jpg`.
 */
export async function ensureMedia(directory: string): Promise<string> {
  const complete = join(directory, `complete-${RECIPE}`);
  if (existsSync(complete)) return directory;
  const making = `${directory}.${process.pid}`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true });
  for (const text of tracks.subtitles) {
    mkdirSync(join(making, String(text.track)), { recursive: true });
    writeFileSync(join(making, String(text.track), "text.vtt"), subtitles(text.words));
  }
  await Promise.all([
    film(making),
    smallFilm(join(making, "upload.mkv"), making),
    ...landscapes.map((colours, i) => poster(join(making, `poster-${i}.jpg`), colours)),
  ]);
  writeFileSync(join(making, `complete-${RECIPE}`), "");
  // Another file of tests may have been faster.
  if (existsSync(complete)) {
    rmSync(making, { recursive: true, force: true });
  } else {
    rmSync(directory, { recursive: true, force: true });
    renameSync(making, directory);
  }
  return directory;
}

/** The tracks, and `film.mp4` of the largest picture and the first sound. */
async function film(making: string): Promise<void> {
  await Promise.all([
    ...tracks.video.map((video) => segments(making, video.track, picture(video))),
    ...tracks.audio.map((audio) => segments(making, audio.track, sound(audio))),
  ]);
  await ffmpeg([
    ...["-i", join(making, "0", "media.m3u8"), "-i", join(making, "2", "media.m3u8")],
    ...["-map", "0:v", "-map", "1:a", "-c", "copy", "-movflags", "+faststart", join(making, "film.mp4")],
  ]);
}

function picture({ width, height, bitrate_bps }: (typeof tracks.video)[number]): string[] {
  // Drawn small and enlarged, which is quicker. A picture as smooth as this one looks the same.
  const drawn = `gradients=s=320x180:r=${RATE}:d=${SECONDS}:c0=0x1b2a49:c1=0xc9713d:c2=0x2f6f6b:n=3:speed=0.03:seed=7`;
  return [
    ...["-f", "lavfi", "-i", `${drawn},scale=${width}x${height}:flags=bicubic,format=yuv420p`],
    ...h264,
    ...["-b:v", String(bitrate_bps), "-maxrate", String(bitrate_bps), "-bufsize", String(bitrate_bps)],
    ...["-g", String(RATE * 4), "-keyint_min", String(RATE * 4), "-sc_threshold", "0"],
  ];
}

function sound({ hz, encoder }: (typeof tracks.audio)[number]): string[] {
  const source = ["-f", "lavfi", "-i", `sine=f=${hz}:d=${SECONDS}:r=48000`];
  return [...source, "-af", "volume=0.08", "-ac", "2", ...encoder];
}

function poster(path: string, colours: (typeof landscapes)[number]): Promise<void> {
  return ffmpeg(["-f", "lavfi", "-i", landscape(colours), "-frames:v", "1", "-q:v", "3", path]);
}

/** Two languages of sound and subtitles: what a test sends to a real server. */
function smallFilm(path: string, directory: string): Promise<void> {
  const text = join(directory, "upload.vtt");
  writeFileSync(text, subtitles("Light number"));
  return ffmpeg([
    ...["-f", "lavfi", "-i", `testsrc2=s=640x360:r=${RATE}:d=${SECONDS}`],
    ...[330, 440].flatMap((hz) => ["-f", "lavfi", "-i", `sine=f=${hz}:d=${SECONDS}:r=48000`]),
    ...["-i", text, "-map", "0", "-map", "1", "-map", "2", "-map", "3"],
    ...h264,
    ...["-crf", "36", "-pix_fmt", "yuv420p", "-g", "48"],
    ...["-c:a", "aac", "-ac", "2", "-c:s", "srt"],
    ...["-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger"],
    ...["-metadata:s:s:0", "language=eng", path],
  ]);
}

/** Sky above, sky below, far hills, near hills, each red, green, blue; and where the sun is. */
const landscapes = [
  {
    colours: [
      [38, 52, 92],
      [236, 150, 96],
      [84, 62, 92],
      [28, 24, 44],
    ],
    sun: 420,
    height: 215,
  },
  {
    colours: [
      [150, 186, 204],
      [226, 232, 226],
      [98, 128, 140],
      [40, 60, 70],
    ],
    sun: 180,
    height: 110,
  },
  {
    colours: [
      [24, 40, 58],
      [52, 110, 120],
      [26, 66, 78],
      [10, 26, 36],
    ],
    sun: 500,
    height: 90,
  },
  {
    colours: [
      [242, 198, 130],
      [250, 232, 196],
      [190, 120, 80],
      [96, 52, 44],
    ],
    sun: 320,
    height: 160,
  },
  {
    colours: [
      [58, 30, 58],
      [196, 92, 104],
      [96, 44, 76],
      [36, 18, 40],
    ],
    sun: 140,
    height: 200,
  },
];

function landscape({ colours, sun, height }: (typeof landscapes)[number]): string {
  const plane = (c: number) => {
    const [high, low, far, near] = colours.map((colour) => colour[c] ?? 0);
    const sky = `${high}+(${low}-${high})*Y/300`;
    const disc = `lt(hypot(X-${sun},Y-${height}),44)`;
    return `if(gt(Y,272+20*sin(X/83+${sun})+9*sin(X/29)),${near},if(gt(Y,222+30*sin(X/121+${height})+8*sin(X/37)),${far},if(${disc},255-(255-${low})*0.25,${sky})))`;
  };
  return `color=black:s=640x360,format=gbrp,geq=r='${plane(0)}':g='${plane(1)}':b='${plane(2)}'`;
}

function segments(directory: string, track: number, source: string[]): Promise<void> {
  const to = join(directory, String(track));
  mkdirSync(to, { recursive: true });
  return ffmpeg([
    ...source,
    ...["-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4"],
    ...["-hls_flags", "independent_segments", "-start_number", "1", "-hls_fmp4_init_filename", "init.mp4"],
    ...["-hls_segment_filename", join(to, "%d.m4s"), join(to, "media.m3u8")],
  ]);
}

function subtitles(words: string): string {
  const two = (n: number) => String(n).padStart(2, "0");
  const stamp = (s: number) => `00:${two(Math.floor(s / 60))}:${two(s % 60)}.000`;
  const cues = Array.from(
    { length: SECONDS / 2 },
    (_, i) =>
      `${stamp(i * 2)} --> ${stamp(i * 2 + 2)}\n${words} ${i + 1},\nand <i>another line</i> to read\n`,
  );
  return `WEBVTT\n\n${cues.join("\n")}`;
}

async function ffmpeg(args: string[]): Promise<void> {
  await promisify(execFile)("ffmpeg", ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args]);
}
