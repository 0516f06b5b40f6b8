import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import {
  begin,
  keepControls,
  openMenu,
  pickFilm,
  until,
  untilPlayed,
  untilPlayedFrom,
  useStage,
  videoState,
  type Window,
  windows,
} from "./harness.ts";

const stage = useStage();

test("a title whose address is opened shows its poster and a button that plays it, before it is loaded", async () => {
  const film = await pickFilm(stage);
  const held: Route[] = [];
  let hold = true;
  for (const window of ["desktop", "phone"] as const) {
    hold = true;
    const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
      window,
      prepare: async (page) => {
        // The tests' own looks at a page count as activations of it.
        await page.addInitScript(() =>
          Object.defineProperty(navigator, "userActivation", { value: { hasBeenActive: false } }),
        );
        await page.route("**/api/v1/sessions", async (route) => {
          if (hold) held.push(route);
          else await route.continue();
        });
      },
    });
    const button = page.locator(".big-play");
    await button.waitFor();
    assert.equal(await page.getAttribute("video", "poster"), film.poster);
    await until(() => held.length > 0, "a session is asked for");
    await shot(`player-direct-${window}`);
    await button.click();
    await button.waitFor({ state: "hidden" });
    hold = false;
    for (const route of held.splice(0)) await route.continue();
    await untilPlayed(page, 0.3);
    calm();
    await close();
  }
});

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
    await keepControls(page);
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

/** From the next move of the pointer on, the controls stay shown however long a press takes. */
async function keepControlsOnceMoved(page: Page): Promise<void> {
  await page.evaluate(() => {
    const stage = document.querySelector(".stage");
    const move = () => stage?.dispatchEvent(new PointerEvent("pointermove", { pointerType: "mouse" }));
    stage?.addEventListener("pointermove", () => setInterval(move, 200), { once: true });
  });
}

test("seeking by the line continues playing from there", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  for (const fraction of [0.7, 0.2]) {
    if (fraction === 0.7) {
      // The first press is made while the controls are hidden: the pointer that comes shows them.
      await page.waitForSelector(".stage[data-idle]");
      await keepControlsOnceMoved(page);
    }
    const box = await page.locator(".seek-line").boundingBox();
    assert.ok(box);
    await page.mouse.move(box.x + box.width * fraction, box.y + 2);
    await page.mouse.down();
    if (fraction === 0.7) await shot("player-seeking");
    await page.mouse.up();
    await untilPlayedFrom(page, film.duration_s * fraction, 1.5);
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
  await page.waitForFunction(() => document.querySelector(".stage")?.clientHeight === window.innerHeight);
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

test("one MP4 plays where HLS cannot", async () => {
  const film = await pickFilm(stage);
  const { page, calm, close } = await stage.open(`/title/${film.id}?via=progressive`);
  await begin(page);
  await page.keyboard.press("5");
  await untilPlayedFrom(page, film.duration_s * 0.5, 1);
  await openMenu(page, "subtitles");
  await page.locator(".menu .menu-item").nth(1).click();
  await page.waitForSelector(".cue");
  calm();
  await close();
});
