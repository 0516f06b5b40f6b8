import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import { clock } from "../../src/format.ts";
import {
  begin,
  PATIENCE_MS,
  pickFilm,
  until,
  untilPlayed,
  untilPlayedFrom,
  useStage,
  videoState,
} from "./harness.ts";

const stage = useStage();

test("a film continues where it was left, or from its start", async () => {
  const film = await pickFilm(stage);
  const { page, calm, shot, close } = await stage.open(`/title/${film.id}`, {
    prepare: (page) => page.clock.install(),
  });
  await begin(page);
  // What is left until the film counts as seen lasts longer than any step of a test may take.
  await page.keyboard.press("2");
  await page.waitForFunction(
    (at) => (document.querySelector("video")?.currentTime ?? 0) > at,
    film.duration_s * 0.2,
  );
  await page.click(".brand");
  await page.waitForSelector(`.card[data-id="${film.id}"] .poster-seen`);
  // The offer to start over is shown for some seconds of the page's clock. It stands still, except
  // for what the player needs to begin.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 2 * PATIENCE_MS);
  await page.click(`.card[data-id="${film.id}"] .card-link`);
  await page.waitForSelector("text=Continuing at");
  await until(async () => {
    await page.clock.runFor(100);
    return page.evaluate(() => (document.querySelector("video")?.played.length ?? 0) > 0);
  }, "it plays");
  await untilPlayed(page, 0.3);
  const { currentTime } = await videoState(page);
  assert.ok(currentTime > film.duration_s * 0.2, `it continues at ${currentTime} s`);
  await shot("player-resumed");
  await page.click("text=Start over");
  await page.clock.resume();
  await untilPlayedFrom(page, 0);
  calm();
  await close();
});

for (const via of ["hls", "progressive"]) {
  test(`a film is opened where it was left, and what is pressed meanwhile counts from there (${via})`, async () => {
    const film = await pickFilm(stage);
    const left_s = Math.round(film.duration_s / 2);
    const held: Route[] = [];
    let hold = false;
    const { page, calm, close } = await stage.open("/", {
      prepare: async (page) => {
        const position = JSON.stringify({ at_s: left_s, of_s: film.duration_s });
        await page.addInitScript(
          ([id, position]) => {
            // An empty page has no storage.
            if (location.protocol !== "about:") localStorage.setItem(`reel.position.${id}`, position);
          },
          [film.id, position] as const,
        );
        await page.route("**/s/*/**", (route) => (hold ? void held.push(route) : route.continue()));
      },
    });
    const release = async () => {
      hold = false;
      for (const route of held.splice(0)) await route.continue();
    };
    const open = () => page.goto(`${stage.url}/title/${film.id}?via=${via}`);
    const openHeld = async () => {
      // The page before still asks for segments: only what the next page asks for is to be held.
      await page.goto("about:blank");
      hold = true;
      await open();
      await until(() => held.length > 0, "the film is asked for");
      assert.equal(await page.textContent(".time-now"), clock(left_s), "it says where it will begin");
    };
    const beginsAt = async (at_s: number) => {
      await begin(page);
      await assertPlaysFrom(page, at_s);
    };
    await open();
    await beginsAt(left_s);

    await openHeld();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.textContent(".time-now"), clock(left_s + 5));
    await release();
    await beginsAt(left_s + 5);

    await openHeld();
    await page.click("text=Start over");
    assert.equal(await page.textContent(".time-now"), clock(0));
    await release();
    await beginsAt(0);
    calm();
    await close();
  });

  test(`a key that is pressed as the metadata come counts from where the film was left (${via})`, async () => {
    const film = await pickFilm(stage);
    const left_s = Math.round(film.duration_s / 2);
    const position = JSON.stringify({ at_s: left_s, of_s: film.duration_s });
    const { page, calm, close } = await stage.open(`/title/${film.id}?via=${via}`, {
      prepare: (page) =>
        page.addInitScript(
          ([id, position]) => {
            localStorage.setItem(`reel.position.${id}`, position);
            // Before the player hears of them: the video has metadata then, and stands at zero.
            const press = () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
            document.addEventListener("loadedmetadata", press, { capture: true, once: true });
          },
          [film.id, position] as const,
        ),
    });
    await begin(page);
    await assertPlaysFrom(page, left_s + 5);
    calm();
    await close();
  });
}

/**
 * Fails unless what plays has played from this place on. A browser may have begun elsewhere for a
 * moment, before the page heard of the metadata and placed it.
 */
async function assertPlaysFrom(page: Page, at_s: number): Promise<void> {
  const first_s = await page.evaluate(() => {
    const { played, currentTime } = document.querySelector("video") ?? {};
    if (!played || currentTime === undefined) return Number.NaN;
    const starts = Array.from({ length: played.length }, (_, i) => played.start(i));
    return starts.findLast((start_s) => start_s <= currentTime) ?? Number.NaN;
  });
  assert.ok(Math.abs(first_s - at_s) < 0.5, `it begins at ${first_s} s instead of ${at_s} s`);
}
