import assert from "node:assert/strict";
import { test } from "node:test";
import { resolutionLabel } from "../../src/format.ts";
import {
  begin,
  chooseSmallest,
  pickFilm,
  sessionKey,
  until,
  untilPlayed,
  untilPlayedFrom,
  useStage,
  videoState,
  type Window,
  windows,
} from "./harness.ts";

const stage = useStage();

for (const window of Object.keys(windows) as Window[]) {
  test(`a film plays with sound and picture, from the library (${window})`, async () => {
    const film = await pickFilm(stage);
    const { page, calm, shot, close } = await stage.open("/", { window });
    await page.click(`.card[data-id="${film.id}"] .card-link`);
    await page.waitForURL(`**/title/${film.id}`);
    await begin(page);
    await untilPlayed(page, 2);
    const { videoWidth, videoHeight, duration } = await videoState(page);
    assert.ok(
      film.video.some((v) => v.width === videoWidth && v.height === videoHeight),
      `${videoWidth}x${videoHeight} is none of the title's renditions`,
    );
    assert.ok(Math.abs(duration - film.duration_s) < 1, `${duration} s instead of ${film.duration_s} s`);
    assert.equal(await page.textContent("h1"), film.name);
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
    if (window === "desktop") await page.hover("video");
    else await page.tap("video");
    await page.waitForTimeout(300);
    await shot(`player-${window}`);
    calm();
    await close();
  });
}

test("the line says how long the film is before the first picture is there", async () => {
  const film = await pickFilm(stage);
  const { page, close } = await stage.open(`/title/${film.id}`, {
    prepare: (page) => page.route("**/s/*/**", () => undefined),
  });
  const line = page.locator(".seek");
  assert.equal(await line.getAttribute("aria-valuemax"), String(Math.floor(film.duration_s)));
  assert.match((await line.getAttribute("aria-valuetext")) ?? "", /^0 seconds of \d+ /);
  await close();
});

test("seeking by the line goes on playing from there", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  for (const fraction of [0.7, 0.2]) {
    const box = await page.locator(".seek-line").boundingBox();
    assert.ok(box);
    await page.mouse.move(box.x + box.width * fraction, box.y + 2);
    await page.mouse.down();
    if (fraction === 0.7) await shot("player-seeking");
    await page.mouse.up();
    await untilPlayedFrom(page, film.duration_s * fraction);
    await untilPlayed(page, 1.5);
  }
  calm();
  await close();
});

test("every key does what the help says", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  const until = (what: (v: HTMLVideoElement, x: number) => boolean, x = 0) =>
    page.waitForFunction(`(${what.toString()})(document.querySelector("video"), ${x})`);
  await page.keyboard.press("k");
  await until((v) => v.paused);
  await page.keyboard.press("Space");
  await until((v) => !v.paused);
  await page.keyboard.press("k");
  await until((v) => v.paused);
  await page.keyboard.press("5");
  const half = film.duration_s / 2;
  await until((v, at) => Math.abs(v.currentTime - at) < 0.5, half);
  await page.keyboard.press("l");
  await until((v, at) => Math.abs(v.currentTime - at) < 0.5, half + 10);
  await page.keyboard.press("j");
  await until((v, at) => Math.abs(v.currentTime - at) < 0.5, half);
  await page.keyboard.press("ArrowRight");
  await until((v, at) => Math.abs(v.currentTime - at) < 0.5, half + 5);
  await page.keyboard.press("ArrowLeft");
  await until((v, at) => Math.abs(v.currentTime - at) < 0.5, half);
  await page.keyboard.press("Home");
  await until((v) => v.currentTime === 0);
  await page.keyboard.press("End");
  await until((v, at) => v.currentTime > at, film.duration_s - 2);
  await page.keyboard.press("0");
  await until((v) => v.currentTime === 0);
  await page.keyboard.press("ArrowDown");
  await until((v) => Math.abs(v.volume - 0.95) < 0.001);
  await page.keyboard.press("ArrowUp");
  await until((v) => v.volume === 1);
  await page.keyboard.press("m");
  await until((v) => v.muted);
  await page.keyboard.press("m");
  await until((v) => !v.muted);
  await page.keyboard.press(">");
  await until((v) => v.playbackRate === 1.25);
  await page.keyboard.press("<");
  await until((v) => v.playbackRate === 1);
  await page.keyboard.press("f");
  await page.waitForFunction(() => document.fullscreenElement?.classList.contains("stage"));
  await page.waitForTimeout(300);
  await shot("player-fullscreen");
  await page.keyboard.press("f");
  await page.waitForFunction(() => document.fullscreenElement === null);
  await page.keyboard.press("i");
  await page.waitForSelector(".statistics > div");
  assert.match((await page.textContent(".statistics")) ?? "", /Stalls/);
  await shot("player-statistics");
  await page.keyboard.press("i");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await shot("player-help");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  calm();
  await close();
});

test("another sound track is heard", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.click('[data-control="sound"]');
  await shot("player-sound-menu");
  const items = page.locator(".menu .menu-item");
  assert.equal(await items.count(), film.audio.length);
  assert.equal(await items.nth(0).getAttribute("aria-checked"), "true");
  await items.nth(1).click();
  const second = film.audio[1]?.track;
  await page.waitForFunction(() => !document.querySelector(".menu"));
  await untilPlayed(page, 1);
  await page.click('[data-control="sound"]');
  assert.equal(await items.nth(1).getAttribute("aria-checked"), "true");
  await page.keyboard.press("Escape");
  assert.ok(
    asked.some((url) => url.includes(`/${second}/`) && url.endsWith(".m4s")),
    `no segment of track ${second} was asked for: ${asked.join(" ")}`,
  );

  await page.reload();
  await begin(page);
  await page.hover("video");
  await page.click('[data-control="sound"]');
  assert.equal(await items.nth(1).getAttribute("aria-checked"), "true", "the language is remembered");
  await page.keyboard.press("Escape");

  const smallest = await chooseSmallest(page, film);
  await page.click('[data-control="sound"]');
  await items.nth(0).click();
  await untilPlayed(page, 1);
  await page.hover("video");
  await page.click('[data-control="sound"]');
  assert.equal(await items.nth(0).getAttribute("aria-checked"), "true");
  await page.keyboard.press("Escape");
  if (film.video.length > 1) {
    assert.equal((await videoState(page)).videoHeight, smallest.height, "the chosen quality stays");
    await page.click('[data-control="quality"]');
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
  await page.click('[data-control="subtitles"]');
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
  await page.waitForTimeout(300);
  await shot("player-subtitles-idle");
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
    const wake = () =>
      window === "phone"
        ? page.evaluate(() => document.querySelector(".stage")?.removeAttribute("data-idle"))
        : page.hover("video");
    const heights = [...new Set(film.video.map((v) => v.height))].sort((a, b) => a - b);
    for (const height of heights) {
      const of = film.video.find((v) => v.height === height);
      assert.ok(of);
      await wake();
      await page.click('[data-control="quality"]');
      await page.waitForSelector(".menu");
      if (heights.length > 1) {
        await page.waitForTimeout(250);
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

test("a film goes on where it was left, or from its start", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`, {
    // On a slow machine the offer to start over would be gone before it can be pressed.
    prepare: (page) =>
      page.addInitScript(() => {
        const { setTimeout } = window;
        const slow = (run: TimerHandler, ms?: number) => setTimeout(run, ms === 8000 ? 120_000 : ms);
        window.setTimeout = slow as typeof window.setTimeout;
      }),
  });
  await begin(page);
  await page.keyboard.press("6");
  await page.waitForFunction(
    (at) => (document.querySelector("video")?.currentTime ?? 0) > at,
    film.duration_s * 0.6,
  );
  await page.click(".brand");
  await page.waitForSelector(`.card[data-id="${film.id}"] .poster-seen`);
  await page.click(`.card[data-id="${film.id}"] .card-link`);
  await page.waitForSelector("text=Continuing at");
  await untilPlayed(page, 0.3);
  assert.ok((await videoState(page)).currentTime > film.duration_s * 0.55);
  await shot("player-resumed");
  await page.click("text=Start over");
  await untilPlayedFrom(page, 0);
  calm();
  await close();
});

test("one MP4 plays where HLS cannot", async () => {
  const film = await pickFilm(stage);
  const { page, calm, close } = await stage.open(`/title/${film.id}?via=progressive`);
  await begin(page);
  await page.keyboard.press("5");
  await untilPlayed(page, 1);
  assert.ok((await videoState(page)).currentTime > film.duration_s * 0.45);
  await page.click('[data-control="subtitles"]');
  await page.locator(".menu .menu-item").nth(1).click();
  await page.waitForSelector(".cue");
  calm();
  await close();
});

test("leaving gives the session back", async () => {
  const film = await pickFilm(stage);
  const { page, calm, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  const key = await sessionKey(page);
  assert.ok(await isOpen(key));
  await page.click(".brand");
  await page.waitForSelector(".card");
  await until(async () => !(await isOpen(key)), "the first session is given back");
  await page.click(`.card[data-id="${film.id}"] .card-link`);
  await untilPlayed(page, 0.2);
  const second = await sessionKey(page);
  assert.notEqual(second, key);
  await page.goto("about:blank");
  await until(async () => !(await isOpen(second)), "the second session is given back");
  calm();
  await close();
});

/** Whether a session is open whose key begins like this: the list shows no more of a key. */
async function isOpen(key: string): Promise<boolean> {
  const answer = (await (await fetch(`${stage.url}/api/v1/sessions`)).json()) as {
    sessions: { key_hint: string }[];
  };
  return answer.sessions.some(({ key_hint }) => key.startsWith(key_hint));
}
