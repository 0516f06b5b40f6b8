import { Problem } from "../api/problem.ts";
import type { Session, Title } from "../api/types.ts";
import type { Way } from "./support.ts";

/** One way of getting a title into a <video>: hls.js, the browser's own HLS, or one MP4. */
export interface Engine {
  readonly kind: Way;
  /** Whether the choices are known yet. */
  ready(): boolean;
  levels(): Level[];
  /** Index of the level on screen; -1 when unknown. */
  level(): number;
  /** Index the viewer chose; -1 when the engine chooses. */
  chosenLevel(): number;
  chooseLevel(index: number): void;
  audio(): Choice[];
  chooseAudio(index: number): void;
  subtitles(): Choice[];
  /** -1 for none. */
  chooseSubtitle(index: number): void;
  /** The text track whose cues are to be shown now. */
  textTrack(): TextTrack | undefined;
  /** The engine's estimate of the rate from the server. */
  bandwidth_bps(): number | undefined;
  destroy(): void;
}

export interface Level {
  width: number;
  height: number;
  bitrate_bps: number;
}

export interface Choice {
  language: string;
  name: string;
  detail: string;
  active: boolean;
}

/** Why an engine gave up. */
export type Failure =
  /** The server no longer knows the session: it expired. Another one can be opened. */
  | { reason: "session-gone" }
  /** The server cannot reserve what the client asks for now, at no quality. */
  | { reason: "refused"; problem: Problem }
  /** The browser cannot decode this title. */
  | { reason: "unsupported"; detail: string }
  /** The bytes do not arrive. */
  | { reason: "network"; detail: string }
  | { reason: "media"; detail: string };

export interface EngineOptions {
  video: HTMLVideoElement;
  title: Title;
  session: Session;
  /** Where to load first. The player itself goes there when there is a picture. */
  start_s: number;
  /** Something that menus show has changed. */
  changed: () => void;
  failed: (failure: Failure) => void;
}

/** The way that `?via=` in the page's address forces, to look for a fault. */
export function forcedWay(): Way | undefined {
  const way = new URLSearchParams(location.search).get("via");
  return way === "hls" || way === "native" || way === "progressive" ? way : undefined;
}

export async function startEngine(way: Way, options: EngineOptions): Promise<Engine> {
  if (way === "hls") {
    const { HlsEngine } = await import("./engine-hls.ts").catch(missing);
    return new HlsEngine(options);
  }
  const { PlainEngine } = await import("./engine-plain.ts").catch(missing);
  return new PlainEngine(options, way);
}

function missing(): never {
  throw new Problem(0, {
    title: "The player could not be loaded",
    detail: "Reel does not answer, or was updated since this page was opened. Load the page again.",
  });
}
