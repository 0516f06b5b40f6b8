import assert from "node:assert/strict";
import { test } from "node:test";
import { resolutionLabel } from "../../src/format.ts";
import {
  begin,
  chooseQuality,
  chooseSmallest,
  openMenu,
  pickFilm,
  untilPlayed,
  useStage,
  videoState,
  type Window,
  windows,
} from "./harness.ts";

const stage = useStage();

/** Less than the largest quality needs, so that its segments are expected to take long. */
const SLOW_BYTES_PER_S = 40_000;
/** What is left of a film is loaded at that rate within the patience of a test. */
const LEFT_S = 8;
/** The slowest that Chromium plays: what is left lasts two minutes. */
const SLOWEST = 1 / 16;
/** After this time a quality that was chosen is shown (`src/player/engine-hls.ts`). */
const SWITCH_MAX_S = 10;

test("another sound track is heard", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await openMenu(page, "sound");
  await shot("player-sound-menu");
  const items = page.locator(".menu .menu-item");
  assert.equal(await items.count(), film.audio.length);
  assert.equal(await items.nth(0).getAttribute("aria-checked"), "true");
  await items.nth(1).click();
  await page.keyboard.press("Home");
  const second = film.audio[1]?.track;
  await page.waitForFunction(() => !document.querySelector(".menu"));
  await untilPlayed(page, 1);
  await openMenu(page, "sound");
  assert.equal(await items.nth(1).getAttribute("aria-checked"), "true");
  await page.keyboard.press("Escape");
  assert.ok(
    asked.some((url) => url.includes(`/${second}/`) && url.endsWith(".m4s")),
    `no segment of track ${second} was asked for: ${asked.join(" ")}`,
  );

  await page.reload();
  await begin(page);
  await openMenu(page, "sound");
  assert.equal(await items.nth(1).getAttribute("aria-checked"), "true", "the language is remembered");
  await page.keyboard.press("Escape");

  const smallest = await chooseSmallest(page, film);
  await openMenu(page, "sound");
  await items.nth(0).click();
  await page.keyboard.press("Home");
  await untilPlayed(page, 1);
  await openMenu(page, "sound");
  assert.equal(await items.nth(0).getAttribute("aria-checked"), "true");
  await page.keyboard.press("Escape");
  if (film.video.length > 1) {
    // The chosen quality stays. What was loaded before it was chosen may be shown first.
    await page.waitForFunction(
      (height) => document.querySelector("video")?.videoHeight === height,
      smallest.height,
    );
    await openMenu(page, "quality");
    assert.match(
      (await page.textContent('.menu-item[aria-checked="true"]')) ?? "",
      new RegExp(`${smallest.width}×`),
    );
  }
  calm();
  await close();
});

test("subtitles show their text, by menu and by key", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  assert.equal(await page.locator(".cue").count(), 0, "nothing until asked for");
  await openMenu(page, "subtitles");
  await page.waitForSelector(".menu");
  assert.equal(await page.locator(".menu .menu-item").count(), film.subtitles.length + 1);
  await shot("player-subtitles-menu");
  await page.locator(".menu .menu-item").nth(1).click();
  await page.keyboard.press("3");
  await page.waitForSelector(".cue");
  assert.ok(((await page.textContent(".cue")) ?? "").trim().length > 0);
  await untilPlayed(page, 0.5);
  await page.waitForSelector(".cue");
  await shot("player-subtitles");
  await page.mouse.move(2, 2);
  await page.waitForSelector(".stage[data-idle]");
  await page.waitForSelector(".cue");
  await shot("player-subtitles-idle");
  // Nothing of the film passes while the keys are looked at.
  await page.keyboard.press("k");
  await page.waitForFunction(() => document.querySelector("video")?.paused);
  await page.keyboard.press("c");
  await page.waitForSelector(".cue", { state: "detached" });
  await page.keyboard.press("c");
  await page.waitForSelector(".cue");
  calm();
  await close();
});

for (const window of Object.keys(windows) as Window[]) {
  test(`every quality can be chosen and is the one shown (${window})`, async () => {
    const film = await pickFilm(stage);
    const { page, calm, shot, close } = await stage.open(`/title/${film.id}`, { window });
    await begin(page);
    const heights = [...new Set(film.video.map((v) => v.height))].sort((a, b) => a - b);
    for (const height of heights) {
      const of = film.video.find((v) => v.height === height);
      assert.ok(of);
      // Each has the whole film before it.
      await page.keyboard.press("Home");
      await openMenu(page, "quality");
      await page.waitForSelector(".menu");
      if (heights.length > 1) {
        if (height === heights[0]) await shot(`player-quality-${window}`);
        await page
          .locator(".menu .menu-item", { hasText: `${of.width}×${of.height}` })
          .first()
          .click();
      } else {
        await page.keyboard.press("Escape");
      }
      await page.waitForFunction((wanted) => document.querySelector("video")?.videoHeight === wanted, height);
      await page.waitForFunction(
        (label) => document.querySelector('[data-control="quality"]')?.textContent === label,
        resolutionLabel(of.width, of.height),
      );
      await untilPlayed(page, 0.5);
    }
    assert.match(
      (await page.getAttribute('[data-control="quality"]', "title")) ?? "",
      /b\/s/,
      "the bit rate is told",
    );
    calm();
    await close();
  });
}

test("a quality is shown soon, though the network was slow and all that follows is there already", async () => {
  const film = await pickFilm(stage);
  const at_s = film.duration_s - LEFT_S;
  let allow = async (_bytesPerSecond: number) => {};
  const { page, close } = await stage.open(`/title/${film.id}`, {
    prepare: async (page) => {
      await page.clock.install();
      await page.addInitScript(
        ([id, at_s, of_s]) => {
          // The player begins with the smallest quality near the end of the film.
          localStorage.setItem("reel.preferences", JSON.stringify({ bandwidth_bps: 100_000 }));
          localStorage.setItem(`reel.position.${id}`, JSON.stringify({ at_s, of_s }));
          // It stands there until all is loaded, whether the browser lets it begin or not.
          const held = new AbortController();
          const pause = ({ target }: Event) => (target as HTMLVideoElement).pause();
          document.addEventListener("play", pause, { capture: true, signal: held.signal });
          document.addEventListener("all-is-loaded", () => held.abort());
        },
        [film.id, at_s, film.duration_s] as const,
      );
      const network = await page.context().newCDPSession(page);
      await network.send("Network.enable");
      const unchanged = { offline: false, latency: 0, uploadThroughput: -1 };
      allow = async (downloadThroughput) => {
        await network.send("Network.emulateNetworkConditions", { ...unchanged, downloadThroughput });
      };
      page.on("request", (request) => {
        if (request.url().endsWith("master.m3u8")) void allow(SLOW_BYTES_PER_S);
      });
    },
  });
  await page.waitForFunction((end_s) => {
    const buffered = document.querySelector("video")?.buffered;
    return buffered !== undefined && buffered.length > 0 && buffered.end(buffered.length - 1) > end_s;
  }, film.duration_s - 0.5);
  await allow(-1);
  const before = await videoState(page);
  const other = film.video.find((v) => v.height > before.videoHeight);
  assert.ok(other, `${before.videoHeight} is not the smallest`);
  assert.ok(Math.abs(before.currentTime - at_s) < 0.5, `at ${before.currentTime} s`);
  const setSpeed = (speed: number) =>
    page.evaluate((speed) => {
      const video = document.querySelector("video");
      if (video) video.playbackRate = speed;
    }, speed);
  // It is chosen while the film plays: so slowly that it does not end meanwhile.
  await setSpeed(SLOWEST);
  await page.evaluate(() => {
    document.dispatchEvent(new Event("all-is-loaded"));
    void document.querySelector("video")?.play();
  });
  await untilPlayed(page, 0.1);
  await chooseQuality(page, other);
  // The player expects that a segment takes longer than the rest of the film, and changes after
  // some seconds all the same. The clock of the page is advanced by them. What was loaded is
  // dropped then: the film cannot end in the old quality.
  await page.clock.runFor(SWITCH_MAX_S * 1000);
  await setSpeed(1);
  await page.waitForFunction(
    (height) => document.querySelector("video")?.videoHeight === height,
    other.height,
  );
  await close();
});
