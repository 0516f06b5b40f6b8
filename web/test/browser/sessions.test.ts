import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import {
  begin,
  chooseSmallest,
  openMenu,
  pickFilm,
  sessionKey,
  until,
  untilPlayed,
  untilPlayedFrom,
  useStage,
  videoState,
} from "./harness.ts";

const stage = useStage();

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

test("leaving the page gives the reservation back at once", async () => {
  const film = await pickFilm(stage);
  const { page, close } = await stage.open(`/title/${film.id}`);
  await begin(page);
  const mine = await sessionKey(page);
  const open = async () =>
    (
      (await (await fetch(`${stage.url}/api/v1/sessions`)).json()) as { sessions: { key_hint: string }[] }
    ).sessions.some(({ key_hint }) => mine.startsWith(key_hint));
  assert.ok(mine && (await open()));
  await page.goto("about:blank");
  await until(async () => !(await open()), "the session is given back");
  await close();
});

test("a session that ended is opened again and the film continues", async () => {
  const film = await pickFilm(stage);
  const { page, shot, close } = await stage.open(`/title/${film.id}`, { expected: /404|410/ });
  await begin(page);
  const smallest = await chooseSmallest(page, film);
  await page.keyboard.press("<");
  // Everything that is asked for from here on waits, so that each step is seen.
  const late: Route[] = [];
  const opening: Route[] = [];
  let hold = true;
  let holdOpening = true;
  await page.route("**/s/*/**", async (route) => (hold ? void late.push(route) : route.continue()));
  await page.route("**/api/v1/sessions", async (route) =>
    holdOpening && route.request().method() === "POST" ? void opening.push(route) : route.continue(),
  );
  const key = await sessionKey(page);
  assert.equal((await fetch(`${stage.url}/api/v1/sessions/${key}`, { method: "DELETE" })).status, 204);

  // What is buffered plays on; another sound track has to be requested.
  await openMenu(page, "sound");
  await page.locator(".menu .menu-item").nth(1).click();
  await openMenu(page, "subtitles");
  hold = false;
  for (const route of late) await route.continue();
  await page.waitForSelector('[data-control="sound"]:disabled');
  assert.equal(await page.isVisible('[data-control="sound"]'), true, "it does not come and go");
  await shot("player-opened-again");
  await page.locator(".menu .menu-item").nth(1).click();

  await until(() => opening.length > 0, "another session is asked for");
  assert.equal(opening.length, 1, "one session is asked for");
  await page.waitForFunction(() => document.querySelector("video")?.readyState === 0);
  const shown = await untilDrawn(page, ".big-play");
  assert.equal(shown, 0, "it continues by itself: there is nothing to press");
  await page.keyboard.press("6");
  await page.keyboard.press("ArrowRight");
  holdOpening = false;
  for (const route of opening) await route.continue();
  await page.waitForFunction(
    async () =>
      ((await (await fetch("/api/v1/sessions")).json()) as { sessions: unknown[] }).sessions.length > 0,
  );
  // It plays where the viewer went meanwhile.
  await untilPlayedFrom(page, film.duration_s * 0.6 + 5, 1);
  assert.equal(await page.isVisible(".message"), false);
  // Nothing of the film passes while the menus are looked at.
  await page.keyboard.press("k");
  assert.equal((await videoState(page)).playbackRate, 0.75, "the speed stands");
  for (const control of ["sound", "subtitles"]) {
    await openMenu(page, control);
    assert.equal(
      await page.locator(".menu .menu-item").nth(1).getAttribute("aria-checked"),
      "true",
      `the choice of ${control} stands`,
    );
    await page.keyboard.press("Escape");
  }
  if (film.video.length > 1) {
    await openMenu(page, "quality");
    assert.match(
      (await page.textContent('.menu-item[aria-checked="true"]')) ?? "",
      new RegExp(`${smallest.width}×`),
      "the chosen quality stands",
    );
  }
  await close();
});

test("sessions may end as often as they like while the film continues between, and the sound stays the one chosen", async () => {
  const film = await pickFilm(stage);
  const { page, close } = await stage.open(`/title/${film.id}`, {
    expected: /404|410/,
    prepare: (page) =>
      // All sound in one language, as with a commentary: it is not enough to remember the language.
      page.route("**/master.m3u8", async (route) => {
        const answer = await route.fetch();
        const body = (await answer.text()).replace(/(TYPE=AUDIO.*?LANGUAGE=)"[^"]*"/g, '$1"en"');
        return route.fulfill({ response: answer, body });
      }),
  });
  await begin(page);
  const items = page.locator(".menu .menu-item");
  for (const ended of [1, 2, 3, 4]) {
    await page.keyboard.press("Home");
    const key = await sessionKey(page);
    await fetch(`${stage.url}/api/v1/sessions/${key}`, { method: "DELETE" });
    await openMenu(page, "sound");
    await items.nth(ended % 2).click();
    await until(async () => (await sessionKey(page)) !== key, `session ${ended} is followed by another`);
    await page.waitForFunction(() => {
      const played = document.querySelector("video")?.played;
      return (
        played &&
        Array.from({ length: played.length }, (_, i) => played.end(i) - played.start(i)).reduce(
          (sum, part) => sum + part,
          0,
        ) > 2.2
      );
    });
    await openMenu(page, "sound");
    assert.equal(
      await items.nth(ended % 2).getAttribute("aria-checked"),
      "true",
      `the sound chosen stands after session ${ended}`,
    );
    await page.keyboard.press("Escape");
  }
  assert.equal(await page.isVisible(".message"), false);
  await close();
});

test("one MP4 whose session ended continues too", async () => {
  const film = await pickFilm(stage);
  const keys = new Set<string>();
  const held: Route[] = [];
  let ended = false;
  const { page, close } = await stage.open(`/title/${film.id}?via=progressive`, {
    expected: /404|410/,
    prepare: (page) =>
      // Of the first session only the first half comes, however much the browser would load ahead.
      page.route(/\/s\/[^/]+\/[^/]+\.mp4$/, async (route) => {
        const { range } = route.request().headers();
        keys.add(/\/s\/([^/]+)\//.exec(route.request().url())?.[1] ?? "");
        if (ended) return route.continue();
        if (range !== undefined && range !== "bytes=0-") return void held.push(route);
        const { headers } = await fetch(route.request().url(), { method: "HEAD" });
        const half = Math.floor(Number(headers.get("content-length")) / 2);
        return route.continue({ headers: { ...route.request().headers(), range: `bytes=0-${half}` } });
      }),
  });
  await begin(page);
  const [key] = keys;
  assert.equal((await fetch(`${stage.url}/api/v1/sessions/${key}`, { method: "DELETE" })).status, 204);
  await page.keyboard.press("9");
  await until(() => held.length > 0, "more is asked for");
  ended = true;
  for (const route of held) await route.continue();
  await until(() => keys.size > 1, "another session is used");
  await untilPlayedFrom(page, film.duration_s * 0.9, 0.5);
  assert.equal(await page.isVisible(".message"), false);
  await close();
});

/**
 * Waits until a page was drawn so often, and says in how many of these pictures an element showed.
 */
function untilDrawn(page: Page, selector: string, pictures = 12): Promise<number> {
  return page.evaluate(
    ([selector, pictures]) =>
      new Promise<number>((resolve) => {
        let drawn = 0;
        let shown = 0;
        const look = () => {
          if (document.querySelector(selector)?.checkVisibility()) shown += 1;
          drawn += 1;
          if (drawn < pictures) requestAnimationFrame(look);
          else resolve(shown);
        };
        requestAnimationFrame(look);
      }),
    [selector, pictures] as const,
  );
}

/** Whether a session is open whose key begins like this: the list shows no more of a key. */
async function isOpen(key: string): Promise<boolean> {
  const answer = (await (await fetch(`${stage.url}/api/v1/sessions`)).json()) as {
    sessions: { key_hint: string }[];
  };
  return answer.sessions.some(({ key_hint }) => key.startsWith(key_hint));
}
