/** Players in Chromium that play titles of the server that REEL_URL names. */

import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { dist } from "../places.ts";

/** How long a title may take on a busy machine; only the length of a failure depends on it. */
const PATIENCE_MS = 90_000;
/** A file of a package, whatever the package exports to programs. */
const script = (name: string) => join(dirname(dist), "node_modules", name);
export const server = (process.env.REEL_URL ?? "").replace(/\/$/, "");

/** What is seen of a title while it plays. */
export interface Seen {
  ended: boolean;
  errors: string[];
  /** Times at which the player waited for data after it had begun. */
  waits: number[];
  /** Times to which the player jumped after it had begun, as players do over a gap. */
  jumps: number[];
  /** Widths of the picture, in order. */
  widths: number[];
  /** Times, and the bytes of sound that were decoded until then. */
  sound: [number, number][];
  /** Ranges in the buffer at the end. */
  buffered: [number, number][];
  time: number;
  duration: number;
  /** Times of the pictures that were shown, with their numbers, if they are read. */
  pictures: [number, number][];
}

/** What is used of the players. */
declare global {
  interface Window {
    seen: Seen;
    video: HTMLVideoElement;
    /** Notes that the title has ended. */
    end: () => void;
    pictures?: [number, number][];
    Hls: {
      new (): {
        on(event: string, heard: (event: string, data: { fatal: boolean; details: string }) => void): void;
        loadSource(url: string): void;
        attachMedia(video: HTMLVideoElement): void;
      };
      Events: { ERROR: string };
    };
    dashjs: {
      MediaPlayer(): {
        create(): {
          on(event: "error", heard: (event: { error: { message: string } }) => void): void;
          on(event: "playbackEnded", heard: (event: { isLast: boolean }) => void): void;
          initialize(video: HTMLVideoElement, url: string, autoplay: boolean): void;
        };
      };
    };
    shaka: {
      Player: new () => {
        addEventListener(event: "error", heard: (event: { detail: { code: number } }) => void): void;
        attach(video: HTMLVideoElement): Promise<void>;
        load(url: string): Promise<void>;
      };
    };
  }
  interface HTMLVideoElement {
    /** Chromium's. */
    webkitAudioDecodedByteCount: number;
  }
}

/** A player: its script, the form of a title that it plays, and what begins it in the page. */
export interface Player {
  script?: string;
  form: string;
  begin: (url: string) => void;
}

/** The players, by name. */
export const players: Record<string, Player> = {
  "hls.js": {
    script: script("hls.js/dist/hls.js"),
    form: "master.m3u8",
    begin: (url) => {
      const { Hls, seen, video } = window;
      const hls = new Hls();
      Object.assign(window, { player: hls });
      hls.on(Hls.Events.ERROR, (_, data) => {
        if (data.fatal || data.details !== "bufferStalledError") seen.errors.push(String(data.details));
      });
      hls.loadSource(url);
      hls.attachMedia(video);
    },
  },
  "dash.js": {
    script: script("dashjs/dist/modern/umd/dash.all.min.js"),
    form: "manifest.mpd",
    begin: (url) => {
      const { dashjs, seen, video, end } = window;
      const player = dashjs.MediaPlayer().create();
      Object.assign(window, { player });
      player.on("error", (event) => seen.errors.push(event.error.message));
      // Every 200 ms, dash.js looks whether the time is that of the end, and then pauses the
      // element. If that is before the element has ended by itself, the element never does.
      // A period that is not the last one ends, too.
      player.on("playbackEnded", ({ isLast }) => isLast && end());
      player.initialize(video, url, true);
    },
  },
  "Shaka with DASH": {
    script: script("shaka-player/dist/shaka-player.compiled.js"),
    form: "manifest.mpd",
    begin: beginShaka,
  },
  "Shaka with HLS": {
    script: script("shaka-player/dist/shaka-player.compiled.js"),
    form: "master.m3u8",
    begin: beginShaka,
  },
};

function beginShaka(url: string) {
  const { shaka, seen, video } = window;
  const player = new shaka.Player();
  Object.assign(window, { player });
  player.addEventListener("error", (event) => seen.errors.push(`${event.detail.code}`));
  player
    .attach(video)
    .then(() => player.load(url))
    .then(() => video.play())
    .catch((error) => seen.errors.push(`${error.code ?? error}`));
}

/** Notes in `window.seen` what happens to a video element. */
function watch(video: HTMLVideoElement) {
  const seen: Seen = {
    ended: false,
    errors: [],
    waits: [],
    jumps: [],
    widths: video.videoWidth > 0 ? [video.videoWidth] : [],
    sound: [],
    buffered: [],
    time: 0,
    duration: 0,
    pictures: [],
  };
  const look = () => {
    seen.time = video.currentTime;
    seen.duration = video.duration;
    seen.sound.push([video.currentTime, video.webkitAudioDecodedByteCount]);
    const { buffered } = video;
    seen.buffered = Array.from({ length: buffered.length }, (_, i) => [buffered.start(i), buffered.end(i)]);
  };
  video.addEventListener("resize", () => seen.widths.push(video.videoWidth));
  video.addEventListener("error", () => seen.errors.push(video.error?.message ?? "error"));
  video.addEventListener("waiting", () => video.currentTime > 0.5 && seen.waits.push(video.currentTime));
  video.addEventListener("seeking", () => video.currentTime > 0.5 && seen.jumps.push(video.currentTime));
  video.addEventListener("timeupdate", look);
  // What a player does after the end is not kept: dash.js goes back half a second after a title
  // that it ended itself, if the media is longer than the manifest says.
  const end = () => {
    if (seen.ended) return;
    look();
    seen.ended = true;
    window.seen = structuredClone(seen);
  };
  video.addEventListener("ended", end);
  Object.assign(window, { seen, video, end });
}

let browser: Browser | undefined;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--mute-audio", "--autoplay-policy=no-user-gesture-required"],
  });
});
after(() => browser?.close());

/** An empty page with a video element, if it is `players-test`. */
export async function open(url: string): Promise<Page> {
  const context = await browser?.newContext({ bypassCSP: true });
  if (!context) throw new Error("Chromium does not run");
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.route("**/players-test", (route) =>
    route.fulfill({ contentType: "text/html", body: "<!doctype html><video muted></video>" }),
  );
  await page.goto(url);
  return page;
}

/** Waits until the title has ended, or nothing has moved for long. */
async function seenOf(page: Page): Promise<Seen> {
  await page.waitForFunction(() => window.seen.ended || window.seen.errors.length > 0).catch(() => undefined);
  const seen = await page.evaluate(() => ({ ...window.seen, pictures: window.pictures ?? [] }));
  await page.context().close();
  return seen;
}

/** Plays a title with a player, from beginning to end. `prepare` sees the element before. */
export async function playWith(
  { script, form, begin }: Player,
  id: string,
  prepare: (video: HTMLVideoElement) => void = () => {},
): Promise<Seen> {
  const page = await open(`${server}/players-test`);
  if (script) await page.addScriptTag({ path: script });
  await page.locator("video").evaluate(watch);
  await page.locator("video").evaluate(prepare);
  // Before there is media: an element that has enough of it does not look at this any more.
  await page.locator("video").evaluate((video: HTMLVideoElement) => {
    video.autoplay = true;
  });
  await page.evaluate(begin, `${server}/watch/${id}/${form.replace("ID", id)}`);
  return seenOf(page);
}

/** The same on the page of Reel. */
export async function playOnPage(
  id: string,
  prepare: (video: HTMLVideoElement) => void = () => {},
): Promise<Seen> {
  const page = await open(`${server}/title/${id}`);
  await page.waitForSelector("video");
  await page.locator("video").evaluate(watch);
  await page.locator("video").evaluate(prepare);
  await page.waitForFunction(() => window.video.readyState >= 2);
  await page.evaluate(() => window.video.play());
  return seenOf(page);
}
