import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "playwright-core";
import { begin, pickFilm, until, untilPlayed, useStage, videoState } from "./harness.ts";

const stage = useStage();

test("a film whose bytes stop coming is said to stall, then continues", async () => {
  const film = await pickFilm(stage);
  const held: Route[] = [];
  let hold = true;
  const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
    // The first two segments of each track come, the others only later.
    prepare: (page) =>
      page.route(/\/s\/[^/]+\/\d+\/([3-9]|\d\d+)\.m4s$/, async (route) => {
        if (!hold) return route.continue();
        held.push(route);
        return undefined;
      }),
  });
  await begin(page);
  await page.evaluate(() => {
    const video = document.querySelector("video");
    if (video) video.playbackRate = 2;
  });
  await page.waitForSelector("text=/Stalled for \\d+ s, waiting for data/");
  await shot("player-stalled");
  hold = false;
  for (const route of held) await route.continue();
  await page.waitForSelector(".waiting", { state: "hidden" });
  await untilPlayed(page, 0.5);
  await page.keyboard.press("i");
  await page.waitForFunction(() =>
    /Stalls[1-9]\d*, /.test(document.querySelector(".statistics")?.textContent ?? ""),
  );
  calm();
  await close();
});

test("a title that is not there, and a page that is not there", async () => {
  const { page, shot, close } = await stage.open("/title/no-such-film", { expected: /404/ });
  await page.waitForSelector(".failure");
  const words = (await page.textContent(".failure")) ?? "";
  assert.match(words, /There is no such title.*deleted/s);
  assert.doesNotMatch(words, /api/);
  await shot("title-missing");
  await page.click(".failure .button");
  await page.waitForSelector(".card");
  await close();
});

test("a title that is tried again twice is played once", async () => {
  const film = await pickFilm(stage);
  const held: Route[] = [];
  let asked = 0;
  let opened = 0;
  const { page, shot, close } = await stage.open(`/title/${film.id}`, {
    expected: /500/,
    prepare: async (page) => {
      page.on("request", (request) => {
        if (request.method() === "POST" && request.url().endsWith("/sessions")) opened += 1;
      });
      await page.route(`**/api/v1/titles/${film.id}`, (route) => {
        asked += 1;
        return asked === 1
          ? route.fulfill({ status: 500, contentType: "text/plain", body: "" })
          : void held.push(route);
      });
    },
  });
  await page.waitForSelector(".failure");
  await shot("title-failed");
  await page.locator("text=Try again").dblclick();
  await until(() => held.length > 0, "the title is asked for again");
  assert.equal(await page.isVisible(".failure"), false);
  for (const route of held) await route.continue();
  await begin(page);
  assert.deepEqual([asked, opened], [2, 1]);
  await close();
});

test("a part of the program that cannot be loaded is told of, and the page can be loaded again", async () => {
  const film = await pickFilm(stage);
  const { page, shot, close } = await stage.open("/", { expected: /404|Failed to (load|fetch)/ });
  const opened: string[] = [];
  const closed: string[] = [];
  page.on("response", async (response) => {
    if (response.request().method() === "POST" && response.url().endsWith("/sessions"))
      opened.push(((await response.json()) as { key: string }).key);
  });
  page.on("request", (request) => {
    if (request.method() === "DELETE") closed.push(request.url().split("/").at(-1) ?? "");
  });
  await page.route("**/assets/page-*.js", (route) => route.fulfill({ status: 404, body: "" }));
  await page.click(`.card[data-id="${film.id}"] .card-link`);
  await page.waitForSelector("text=This page could not be loaded");
  await shot("page-not-loaded");
  await page.unroute("**/assets/page-*.js");

  await page.route("**/assets/engine-*.js", (route) => route.fulfill({ status: 404, body: "" }));
  await page.click("text=Load again");
  await page.waitForSelector(".message >> text=The player could not be loaded");
  await shot("player-not-loaded");
  await until(() => opened.length === 1 && closed.includes(opened[0] ?? ""), "the session is given back");
  await page.unroute("**/assets/engine-*.js");
  await page.reload();
  await begin(page);
  await close();
});

test("the server away at the start, then back", async () => {
  const film = await pickFilm(stage);
  let away = true;
  const { page, shot, close } = await stage.open(`/title/${film.id}`, {
    expected: /./,
    prepare: (page) =>
      page.route("**/api/v1/sessions", (route) =>
        away ? route.abort("connectionrefused") : route.continue(),
      ),
  });
  await page.waitForSelector("text=Reel does not answer");
  await shot("player-server-away");
  away = false;
  await page.click("text=Try again");
  await untilPlayed(page, 0.3);
  const { paused } = await videoState(page);
  assert.equal(paused, false);
  await close();
});
