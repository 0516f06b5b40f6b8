/** How much of a title a browser can play, and in which way. Pure: the caller asks the browser. */

import type { Title } from "../api/types.ts";
import { codecName } from "../format.ts";

/** What a browser says it can decode, by media type. */
export interface Decoders {
  /** Media Source Extensions; undefined if the browser has none. */
  source: ((type: string) => boolean) | undefined;
  /** A media element that loads one file. */
  element(type: string): boolean;
  /** A media element that loads HLS. */
  hls: boolean;
}

/** hls.js, the browser's own HLS, or one MP4. */
export type Way = "hls" | "native" | "progressive";

export interface Support {
  /** The way in which all of the title can be played; undefined if there is none. */
  way: Way | undefined;
  /** What of it can be played if not all. */
  part: "picture" | "sound" | undefined;
  /** The names of the codecs that the browser lacks. */
  missing: string[];
}

type Tracks = Pick<Title, "video" | "audio">;

export function supportOf(title: Tracks, decoders: Decoders): Support {
  const { video, audio } = title;
  const kinds: { of: "video" | "audio"; codecs: string[] }[] = [
    { of: "video" as const, codecs: video.map((track) => track.codec) },
    { of: "audio" as const, codecs: audio.map((track) => track.codec) },
  ].filter(({ codecs }) => codecs.length > 0);

  // Of several renditions and sound tracks, a player of HLS takes those that can be decoded.
  const { source } = decoders;
  if (source && kinds.every(({ of, codecs }) => codecs.some((codec) => source(typeOf(of, codec)))))
    return { way: "hls", part: undefined, missing: [] };

  // Of one file, a media element plays its only rendition, and the first sound track.
  const native = !source && decoders.hls;
  const inFile = { video: native ? video : [largestOf(video)], audio: native ? audio : audio.slice(0, 1) };
  const lacking = kinds.map(({ of }) => {
    const codecs = inFile[of].flatMap((track) => (track ? [track.codec] : []));
    const missing = codecs.filter((codec) => !decoders.element(typeOf(of, codec)));
    return { of, missing: missing.length < codecs.length ? [] : missing };
  });
  if (lacking.every(({ missing }) => missing.length === 0))
    return { way: native ? "native" : "progressive", part: undefined, missing: [] };
  const played = lacking.find(({ missing }) => missing.length === 0);
  return {
    way: undefined,
    part: played && (played.of === "video" ? "picture" : "sound"),
    missing: [...new Set(lacking.flatMap(({ missing }) => missing).map(codecName))],
  };
}

/** The mark of a title of which this browser cannot play all; empty if it can. */
export function supportMark({ way, part }: Support): string {
  if (way) return "";
  if (part === undefined) return "Not in this browser";
  return part === "picture" ? "No sound in this browser" : "No picture in this browser";
}

/** The media type that a browser is asked for. */
export function typeOf(kind: "video" | "audio", codec: string): string {
  return `${kind}/mp4; codecs="${codec}"`;
}

function largestOf<T extends { width: number; height: number; bitrate_bps: number }>(
  video: T[],
): T | undefined {
  return [...video].sort(
    (a, b) => b.width * b.height - a.width * a.height || b.bitrate_bps - a.bitrate_bps,
  )[0];
}
