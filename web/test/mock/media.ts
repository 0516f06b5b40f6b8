/** Films for the mock: made once by ffmpeg, kept in test-results/media. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const SECONDS = 40;
const RATE = 24;

/** The one film every mock title plays: two renditions, two sound tracks, two subtitle tracks. */
export const tracks = {
  video: [
    { track: 0, width: 1280, height: 720, bitrate_bps: 1_600_000 },
    { track: 1, width: 640, height: 360, bitrate_bps: 500_000 },
  ],
  audio: [
    { track: 2, language: "en", name: "English", hz: 330 },
    { track: 3, language: "de", name: "German", hz: 440 },
  ],
  subtitles: [
    { track: 4, language: "en", name: "English", words: "Light number" },
    { track: 5, language: "de", name: "German", words: "Licht Nummer" },
  ],
};

/** Directory with `{track}/init.mp4`, `{track}/{n}.m4s`, `{track}/text.vtt`, `film.mp4`, `upload.mkv`, `poster-{i}.jpg`. */
export function ensureMedia(directory: string): string {
  if (existsSync(join(directory, "complete"))) return directory;
  const making = `${directory}.making`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true });
  for (const video of tracks.video) {
    segments(making, video.track, [
      ...["-f", "lavfi", "-i", `gradients=s=${video.width}x${video.height}:r=${RATE}:d=${SECONDS}:c0=0x1b2a49:c1=0xc9713d:c2=0x2f6f6b:n=3:speed=0.03:seed=7,format=yuv420p`],
      ...["-c:v", "libx264", "-preset", "veryfast", "-b:v", String(video.bitrate_bps), "-maxrate", String(video.bitrate_bps), "-bufsize", String(video.bitrate_bps)],
      ...["-g", String(RATE * 4), "-keyint_min", String(RATE * 4), "-sc_threshold", "0"],
    ]);
  }
  for (const audio of tracks.audio) {
    segments(making, audio.track, ["-f", "lavfi", "-i", `sine=f=${audio.hz}:d=${SECONDS}:r=48000`, "-af", "volume=0.08", "-ac", "2", "-c:a", "aac", "-b:a", "96k"]);
  }
  for (const text of tracks.subtitles) {
    mkdirSync(join(making, String(text.track)), { recursive: true });
    writeFileSync(join(making, String(text.track), "text.vtt"), subtitles(text.words));
  }
  ffmpeg([
    ...["-i", join(making, "0", "media.m3u8"), "-i", join(making, "2", "media.m3u8")],
    ...["-map", "0:v", "-map", "1:a", "-c", "copy", "-movflags", "+faststart", join(making, "film.mp4")],
  ]);
  smallFilm(join(making, "upload.mkv"), making);
  const pictures = [
    "gradients=s=1280x720:c0=0x0d1b2a:c1=0xe0a458:c2=0x7b2d26:n=3:seed=3",
    "mandelbrot=s=1280x720:start_scale=0.02:start_x=-0.7436:start_y=0.1318",
    "gradients=s=1280x720:c0=0x264653:c1=0x2a9d8f:c2=0xe9c46a:n=3:type=radial:seed=9",
    "mandelbrot=s=1280x720:start_scale=0.3:start_x=-1.25:start_y=0.02",
    "gradients=s=1280x720:c0=0x22223b:c1=0x9a8c98:c2=0xf2e9e4:n=3:seed=21",
  ];
  pictures.forEach((source, i) => ffmpeg(["-f", "lavfi", "-i", source, "-frames:v", "1", "-q:v", "4", join(making, `poster-${i}.jpg`)]));
  writeFileSync(join(making, "complete"), "");
  rmSync(directory, { recursive: true, force: true });
  renameSync(making, directory);
  return directory;
}

/** Six seconds with two languages of sound and subtitles: what a test sends to a real server. */
function smallFilm(path: string, directory: string): void {
  const text = join(directory, "upload.vtt");
  writeFileSync(text, subtitles("Light number"));
  ffmpeg([
    ...["-f", "lavfi", "-i", `testsrc2=s=640x360:r=${RATE}:d=${SECONDS}`],
    ...["-f", "lavfi", "-i", `sine=f=330:d=${SECONDS}:r=48000`, "-f", "lavfi", "-i", `sine=f=440:d=${SECONDS}:r=48000`, "-i", text],
    ...["-map", "0", "-map", "1", "-map", "2", "-map", "3", "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "48", "-c:a", "aac", "-ac", "2", "-c:s", "srt"],
    ...["-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger", "-metadata:s:s:0", "language=eng", path],
  ]);
}

function segments(directory: string, track: number, source: string[]): void {
  const to = join(directory, String(track));
  mkdirSync(to, { recursive: true });
  ffmpeg([
    ...source,
    ...["-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4", "-hls_flags", "independent_segments", "-start_number", "1"],
    ...["-hls_fmp4_init_filename", "init.mp4", "-hls_segment_filename", join(to, "%d.m4s"), join(to, "media.m3u8")],
  ]);
}

function subtitles(words: string): string {
  const stamp = (s: number) => `00:00:${String(s).padStart(2, "0")}.000`;
  const cues = Array.from({ length: SECONDS / 2 }, (_, i) => `${stamp(i * 2)} --> ${stamp(i * 2 + 2)}\n${words} ${i + 1},\nand <i>another line</i> to read\n`);
  return `WEBVTT\n\n${cues.join("\n")}`;
}

function ffmpeg(args: string[]): void {
  execFileSync("ffmpeg", ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args], { stdio: ["ignore", "inherit", "inherit"] });
}
