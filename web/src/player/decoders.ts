import type { Title } from "../api/types.ts";
import { type Decoders, type Support, supportOf, typeOf } from "./support.ts";

declare global {
  interface Window {
    /** Media Source Extensions of phones, which TypeScript's library leaves out. */
    ManagedMediaSource?: typeof MediaSource;
  }
}

const probe = document.createElement("video");
const answers = new Map<string, boolean>();

/** Every card of the library asks; the browser's answers do not change. */
function remembered(key: string, ask: () => boolean): boolean {
  const known = answers.get(key);
  if (known !== undefined) return known;
  const answer = ask();
  answers.set(key, answer);
  return answer;
}

const Source = window.ManagedMediaSource ?? window.MediaSource;

/** What this browser can decode. */
export const decoders: Decoders = {
  source: Source && ((type) => remembered(`source ${type}`, () => Source.isTypeSupported(type))),
  element: (type) => remembered(`element ${type}`, () => probe.canPlayType(type) !== ""),
  hls: probe.canPlayType("application/vnd.apple.mpegurl") !== "",
};

/** Whether this browser can play a track, in any form. */
export function decodes(kind: "video" | "audio", codec: string): boolean {
  const type = typeOf(kind, codec);
  return decoders.source?.(type) === true || decoders.element(type);
}

/** How much of a title this browser can play. */
export function supported(title: Pick<Title, "video" | "audio">): Support {
  return supportOf(title, decoders);
}
