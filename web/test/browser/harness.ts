/** One Chromium and one server for a file of tests: the mock, or the Reel that REEL_URL names. */

import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { after, afterEach, before } from "node:test";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { Title, VideoTrack } from "../../src/api/types.ts";
import { ensureMedia } from "../mock/media.ts";
import { type Mock, startMock } from "../mock/server.ts";
import { dist, mediaDirectory, results } from "../places.ts";

export const windows = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
} as const;
export type Window = keyof typeof windows;

/** How long one step may take on a busy machine; only the length of a failure depends on it. */
export const PATIENCE_MS = 60_000;

export interface Stage {
  url: string;
  /** Absent when the tests run against a real Reel. */
  mock: Mock | undefined;
  media: string;
  titles(): Promise<Title[]>;
  /** Opens a page; `calm` fails the test if the page complained. */
  open(path: string, options?: OpenOptions): Promise<Opened>;
}

export interface OpenOptions {
  window?: Window;
  scheme?: "dark" | "light";
  /** Complaints that the test provokes on purpose. */
  expected?: RegExp;
  prepare?: (page: Page) => Promise<unknown>;
}

export interface Opened {
  page: Page;
  /** Throws if the page logged an error, threw, or asked for something that failed. */
  calm(): void;
  shot(name: string): Promise<void>;
  close(): Promise<void>;
}

/** To be called at the top of a file of tests. */
export function useStage(options: { empty?: boolean; below?: string } = {}): Stage {
  let mock: Mock | undefined;
  let browser: Browser | undefined;
  const real = process.env.REEL_URL?.replace(/\/$/, "");
  const stage: Stage = {
    url: real ?? "",
    mock: undefined,
    media: "",
    async titles() {
      const answer = (await (await fetch(`${stage.url}/api/v1/titles`)).json()) as { titles: Title[] };
      return answer.titles;
    },
    open: async (path, open = {}) => {
      if (!browser) throw new Error("pages are opened in tests: Chromium runs only while they do");
      return openPage(await newContext(browser, open), stage.url + path, open);
    },
  };

  before(async () => {
    stage.media = await ensureMedia(mediaDirectory);
    await mkdir(results, { recursive: true });
    browser = await launch();
    if (real === undefined) {
      mock = await startMock({ dist, media: stage.media, ...options });
      stage.mock = mock;
      stage.url = mock.url;
    } else {
      await ensureFilm(stage);
    }
  });
  // A test that failed has closed nothing; its pages would continue playing beside the next test.
  afterEach(async () => {
    for (const context of browser?.contexts() ?? []) await closeContext(context);
  });
  after(async () => {
    await browser?.close();
    await mock?.close();
  });
  return stage;
}

/** A title with a choice of sound and with subtitles; if the server has none, it is sent one. */
async function ensureFilm(stage: Stage): Promise<void> {
  if ((await stage.titles()).some(isRich)) return;
  const body = readFileSync(join(stage.media, "upload.mkv"));
  const answer = await fetch(`${stage.url}/api/v1/titles?filename=harbour.mkv&name=Harbour&wait=true`, {
    method: "POST",
    body,
    headers: { "content-type": "video/x-matroska" },
  });
  if (answer.status !== 201)
    throw new Error(`the server did not take the test film: ${answer.status} ${await answer.text()}`);
}

function isRich(title: Title): boolean {
  return (
    title.audio.length > 1 &&
    title.subtitles.length > 0 &&
    title.video.some((v) => v.codec.startsWith("avc1")) &&
    title.duration_s >= 20
  );
}

/**
 * The title that the tests of the player play: with the most renditions among those that offer
 * every choice.
 */
export async function pickFilm(stage: Stage): Promise<Title> {
  const wanted = process.env.REEL_TITLE;
  const titles = await stage.titles();
  const rich = titles
    .filter((title) => (wanted ? title.id === wanted : isRich(title)))
    .sort((a, b) => b.video.length - a.video.length);
  const first = rich[0];
  if (!first) throw new Error("the server has no title with two sound tracks and subtitles");
  return first;
}

function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--mute-audio",
    ],
  });
}

/** A visitor who has never been here: storage, cache and permissions of its own. */
function newContext(
  browser: Browser,
  { window = "desktop", scheme = "dark" }: OpenOptions,
): Promise<BrowserContext> {
  return browser.newContext({
    viewport: windows[window],
    colorScheme: scheme,
    hasTouch: window === "phone",
    isMobile: window === "phone",
    ...(window === "phone" ? { deviceScaleFactor: 2 } : {}),
  });
}

async function openPage(
  context: BrowserContext,
  url: string,
  { expected, prepare }: OpenOptions,
): Promise<Opened> {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  const complain = (text: string) => {
    if (!expected?.test(text)) complaints.push(text);
  };
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      complain(`console ${message.type()}: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => complain(`thrown: ${error.message}`));
  page.on("response", (response) => {
    if (response.status() >= 400) complain(`answered ${response.status()}: ${response.url()}`);
  });
  page.on("requestfailed", (request) => {
    // A seek or a change of quality aborts requests; that is no failure.
    const why = request.failure()?.errorText ?? "";
    if (why !== "net::ERR_ABORTED") complain(`failed: ${request.url()} ${why}`);
  });
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith("http") && origin !== new URL(url).origin)
      complain(`left the server: ${request.url()}`);
  });
  // By default the browser keeps the first 250 only, of which `sessionKey` wants the last.
  await page.addInitScript(() => performance.setResourceTimingBufferSize(100_000));
  await prepare?.(page);
  await page.goto(url);
  return {
    page,
    calm() {
      if (complaints.length > 0) throw new Error(`the page complained:\n${complaints.join("\n")}`);
    },
    async shot(name) {
      await page.screenshot({ path: join(results, `${name}.png`), animations: "disabled" });
    },
    close: () => closeContext(context),
  };
}

/** A page may ask until its end. An answer that a test changes on its way then comes too late. */
async function closeContext(context: BrowserContext): Promise<void> {
  for (const page of context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" });
  await context.close();
}

/** What the <video> element says of itself. */
export function videoState(page: Page) {
  return page.evaluate(() => {
    const video = document.querySelector("video");
    if (!video) throw new Error("no video element");
    const {
      currentTime,
      duration,
      paused,
      videoWidth,
      videoHeight,
      muted,
      volume,
      playbackRate,
      readyState,
    } = video;
    return {
      currentTime,
      duration,
      paused,
      videoWidth,
      videoHeight,
      muted,
      volume,
      playbackRate,
      readyState,
    };
  });
}

/** Waits until the title plays and has moved on by `seconds` of media time. */
export async function untilPlayed(page: Page, seconds: number): Promise<void> {
  const from = await page.evaluate(() => document.querySelector("video")?.currentTime ?? 0);
  await page.waitForFunction((until) => {
    const video = document.querySelector("video");
    return video !== null && !video.paused && video.videoWidth > 0 && video.currentTime >= until;
  }, from + seconds);
}

/**
 * Waits until the title has played so many seconds from this place on: on a slow machine it may be
 * further already, or at its end, when it is looked at.
 */
export async function untilPlayedFrom(page: Page, at_s: number, seconds = 0): Promise<void> {
  await page.waitForFunction(
    ([at_s, seconds]) => {
      const played = document.querySelector("video")?.played;
      if (!played) return false;
      const ranges = Array.from(
        { length: played.length },
        (_, i) => [played.start(i), played.end(i)] as const,
      );
      return ranges.some(([start_s, end_s]) => Math.abs(start_s - at_s) < 1 && end_s - start_s >= seconds);
    },
    [at_s, seconds] as const,
  );
}

/** Waits for something that only the server knows. */
export async function until(holds: () => Promise<boolean> | boolean, what: string): Promise<void> {
  const end_ms = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (Date.now() > end_ms) throw new Error(`${what}: not so after ${PATIENCE_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Presses the large button if the browser did not allow sound without a press. */
export async function press(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const video = document.querySelector("video");
    return video !== null && video.readyState >= 2 && !document.querySelector(".stage[data-loading]");
  });
  if (await page.evaluate(() => document.querySelector("video")?.paused)) await page.click(".big-play");
}

/** Begins, and waits until the title plays. */
export async function begin(page: Page): Promise<void> {
  await press(page);
  await untilPlayed(page, 0.3);
}

/**
 * Keeps the controls of the player shown, as a pointer does that never rests, until the function
 * that it gives is called. The page sends itself the moves: they are due before the controls hide,
 * however slow the machine is.
 */
export async function keepControls(page: Page): Promise<() => Promise<void>> {
  const timer = await page.evaluate(() => {
    const move = () =>
      document
        .querySelector(".stage")
        ?.dispatchEvent(new PointerEvent("pointermove", { pointerType: "mouse" }));
    move();
    return window.setInterval(move, 200);
  });
  return () => page.evaluate((timer) => clearInterval(timer), timer);
}

/**
 * Opens a menu of the player. A press does nothing at the moment in which another session is
 * opened; one that came through is not repeated, since it would close the menu.
 */
export async function openMenu(page: Page, control: string): Promise<void> {
  const button = page.locator(`[data-control="${control}"]`);
  const release = await keepControls(page);
  await until(async () => {
    if ((await button.getAttribute("aria-expanded")) === "true") return true;
    await button.click();
    return (await button.getAttribute("aria-expanded")) === "true";
  }, `the menu ${control} is opened`);
  await release();
}

/** Chooses a quality by its menu. */
export async function chooseQuality(page: Page, { width, height }: VideoTrack): Promise<void> {
  await openMenu(page, "quality");
  await page
    .locator(".menu .menu-item", { hasText: `${width}×${height}` })
    .first()
    .click();
}

/** Has the smallest quality shown, and gives it; where there is one only, that one is. */
export async function chooseSmallest(page: Page, film: Title): Promise<VideoTrack> {
  const smallest = [...film.video].sort((a, b) => a.height - b.height)[0];
  if (!smallest) throw new Error("the film has no pictures");
  if (film.video.length > 1) {
    await chooseQuality(page, smallest);
    await page.waitForFunction(
      (height) => document.querySelector("video")?.videoHeight === height,
      smallest.height,
    );
    await page.hover("video");
  }
  return smallest;
}

/** The key of the session that the page has used last, from the addresses it has asked for. */
export async function sessionKey(page: Page): Promise<string> {
  return page.evaluate(() => {
    const entries = performance
      .getEntriesByType("resource")
      .map((entry) => /\/s\/([^/]+)\//.exec(entry.name)?.[1]);
    return entries.filter(Boolean).at(-1) ?? "";
  });
}
