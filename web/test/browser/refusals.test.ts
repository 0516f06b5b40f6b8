import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import type { Session } from "../../src/api/types.ts";
import { clock } from "../../src/format.ts";
import {
  begin,
  openMenu,
  pickFilm,
  press,
  until,
  untilPlayed,
  useStage,
  videoState,
  type Window,
  windows,
} from "./harness.ts";

const stage = useStage();

/** The tests advance the clock of the page by so much when they have seen the refusal. */
const RETRY_S = 9;
/** Where the clock of the page runs meanwhile: more than any step of a test may take. */
const LATER_RETRY_S = 600;

/** As Reel writes it. */
const refusal = {
  type: "urn:reel:problem:not-admitted",
  title: "The deadlines of this stream cannot be promised",
  status: 503,
  detail:
    "member 2 is fully promised: 8.2 ms of device time are asked in one second of it, and 3.1 ms of device time are left",
  resource: "disk",
  member: 2,
  asked: 8_200_000,
  available: 3_100_000,
  grantable_rate_bps: 3_100_000,
  retry_after_s: RETRY_S,
};

for (const window of Object.keys(windows) as Window[]) {
  test(`a refusal says what is short and is tried again by itself (${window})`, async () => {
    const film = await pickFilm(stage);
    let refused = 0;
    const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
      window,
      expected: /503/,
      prepare: async (page) => {
        // The clock runs as soon as it is installed, and cannot be stopped at a time that has
        // passed.
        await page.clock.install({ time: 0 });
        await page.clock.pauseAt(600_000);
        await page.route("**/api/v1/sessions", async (route: Route) => {
          if (refused > 0) return route.continue();
          refused += 1;
          return route.fulfill({
            status: 503,
            contentType: "application/problem+json",
            headers: { "retry-after": String(refusal.retry_after_s) },
            body: JSON.stringify(refusal),
          });
        });
      },
    });
    await page.waitForSelector(".refusal");
    const words = (await page.textContent(".message")) ?? "";
    assert.match(words, /Disk 2 is reserved/);
    assert.match(words, /needs 8\.2 ms in each second, and 3\.1 ms is left/);
    assert.match(words, /up to 3\.1 Mb\/s could start now/);
    assert.match(words, new RegExp(`Trying again in ${RETRY_S} seconds`));
    await shot(`refusal-${window}`);
    assert.equal(refused, 1);
    await page.clock.runFor((RETRY_S - 1) * 1000);
    assert.match((await page.textContent(".message")) ?? "", /Trying again in 1 second(?!s)/);
    await page.clock.runFor(1000);
    await page.clock.resume();
    await begin(page);
    assert.equal(await page.isVisible(".refusal"), false);
    calm();
    await close();
  });
}

/** Advances the clock of a page that shows a refusal to the next try, which hides the refusal. */
async function untilTriedAgain(page: Page): Promise<void> {
  const left_s = Number(/Trying again in (\d+)/.exec((await page.textContent(".message")) ?? "")?.[1]);
  assert.ok(left_s > 0, "it is tried again by itself");
  await page.clock.runFor(left_s * 1000);
  await page.waitForSelector(".refusal", { state: "hidden" });
}

test("the button tries a refused film at once", async () => {
  const film = await pickFilm(stage);
  let asked = 0;
  const { page, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: (page) =>
      page.route("**/api/v1/sessions", async (route: Route) => {
        asked += 1;
        if (asked > 1) return route.continue();
        return route.fulfill({
          status: 503,
          contentType: "application/problem+json",
          body: JSON.stringify({ ...refusal, retry_after_s: 3000 }),
        });
      }),
  });
  await page.click("text=Try now");
  await untilPlayed(page, 0.3);
  assert.equal(asked, 2);
  await close();
});

test("a film that starts later says when", async () => {
  const film = await pickFilm(stage);
  let send = () => {};
  const sent = new Promise<void>((go) => {
    send = go;
  });
  let isAsked = false;
  const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
    prepare: async (page) => {
      await page.route("**/api/v1/sessions", async (route: Route) => {
        isAsked = true;
        const response = await route.fetch();
        const session = (await response.json()) as Session;
        return route.fulfill({ response, json: { ...session, starts_in_s: 3600 } });
      });
      // The server sends no media before that. Here it waits for the text: a page may be slow.
      await page.route(/\/s\/.*\.(m4s|mp4)$/, async (route: Route) => {
        await sent;
        return route.continue();
      });
    },
  });
  // A page that is opened without a press waits for one. It knows which when it asks for a session;
  // the stage is there before that, with the large button.
  await until(() => isAsked, "the page asks for a session");
  if (!(await page.isVisible(".stage[data-loading]"))) await page.click(".big-play");
  await page.waitForFunction(() =>
    /^Starts in \d+ s$/.test(document.querySelector(".waiting-text")?.textContent ?? ""),
  );
  await shot("starts-later");
  send();
  await begin(page);
  await untilPlayed(page, 0.3);
  // Not at once: a slow machine may wait for its decoder meanwhile.
  await page.waitForSelector(".waiting", { state: "hidden" });
  calm();
  await close();
});

test("a quality that is refused later gives way to a lower one at once", async (t) => {
  const film = await pickFilm(stage);
  const best = [...film.video].sort((a, b) => b.height - a.height)[0];
  const lower = film.video.filter((v) => v.height < (best?.height ?? 0));
  if (!best || lower.length === 0) return t.skip("the server's film has one quality only");
  const asked: ("refused" | "lower")[] = [];
  const { page, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: (page) =>
      page.route(/\/s\/[^/]+\/\d+\/\d+\.m4s$/, async (route) => {
        const track = Number(/\/(\d+)\/\d+\.m4s$/.exec(route.request().url())?.[1]);
        if (track === best.track) {
          asked.push("refused");
          return route.fulfill({
            status: 503,
            contentType: "application/problem+json",
            headers: { "retry-after": "300" },
            body: JSON.stringify(refusal),
          });
        }
        if (lower.some((v) => v.track === track)) asked.push("lower");
        return route.continue();
      }),
  });
  await page.waitForSelector(".stage");
  // A slow machine may begin with a low quality: then the best is chosen.
  await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= 2);
  if (!asked.includes("refused")) {
    await openMenu(page, "quality");
    await page
      .locator(".menu .menu-item", { hasText: `${best.height}p` })
      .first()
      .click();
  }
  await begin(page);
  await untilPlayed(page, 1);
  const first = asked.indexOf("refused");
  assert.ok(first >= 0, "the best quality is asked for");
  assert.equal(asked[first + 1], "lower", `the refused one is not tried again: ${asked.join(" ")}`);
  assert.ok(
    asked.filter((what) => what === "refused").length <= 3,
    `the refused quality is not asked for repeatedly: ${asked.join(" ")}`,
  );
  assert.equal(await page.isVisible(".message"), false, "nothing is said of it");
  await close();
});

// Sixteen times as fast, Chromium never plays what it has to the end.
for (const speed of [4, 16]) {
  test(`a film that is refused on its way plays what it has, then says so, and continues where it was (at ${speed} times the speed)`, async () => {
    const film = await pickFilm(stage);
    let refuse = true;
    const { page, shot, close } = await stage.open(`/title/${film.id}`, {
      expected: /503/,
      prepare: async (page) => {
        await page.clock.install();
        await page.route(/\/s\/[^/]+\/\d+\/([3-9]|\d\d+)\.m4s$/, (route) =>
          refuse
            ? route.fulfill({
                status: 503,
                contentType: "application/problem+json",
                body: JSON.stringify({ ...refusal, retry_after_s: LATER_RETRY_S }),
              })
            : route.continue(),
        );
      },
    });
    await press(page);
    // What it has is played sooner.
    await page.evaluate((speed) => {
      const video = document.querySelector("video");
      if (video) video.playbackRate = speed;
    }, speed);
    await page.waitForSelector(".refusal");
    assert.notEqual(await page.textContent(".time-now"), clock(0), "it played what it had");
    assert.match(
      (await page.textContent(".message")) ?? "",
      /Disk 2 is reserved.*Trying again in \d+ seconds/s,
    );
    await shot("player-refused-later");
    refuse = false;
    await untilTriedAgain(page);
    await untilPlayed(page, 0.5);
    assert.ok((await videoState(page)).currentTime > 4, "not from the beginning");
    await close();
  });
}

test("a paused film that is refused where its viewer goes is shown there when there is room, and stays paused", async () => {
  const film = await pickFilm(stage);
  let refuse = true;
  const { page, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: async (page) => {
      await page.clock.install();
      await page.route(/\/s\/[^/]+\/\d+\/([3-9]|\d\d+)\.m4s$/, (route) =>
        refuse
          ? route.fulfill({
              status: 503,
              contentType: "application/problem+json",
              body: JSON.stringify({ ...refusal, retry_after_s: LATER_RETRY_S }),
            })
          : route.continue(),
      );
    },
  });
  await begin(page);
  await page.keyboard.press("k");
  await page.waitForFunction(() => document.querySelector("video")?.paused);
  await page.keyboard.press("6");
  await page.waitForSelector(".refusal");
  refuse = false;
  await untilTriedAgain(page);
  await page.waitForFunction((at_s) => {
    const video = document.querySelector("video");
    return video && video.readyState >= 2 && !video.seeking && Math.abs(video.currentTime - at_s) < 0.5;
  }, film.duration_s * 0.6);
  // Long enough, by the clock of the page, for a title that would begin to play.
  await page.clock.runFor(1000);
  assert.equal((await videoState(page)).paused, true, "nothing was pressed");
  await close();
});

test("a film that is too long to be played is not asked for again, but can be downloaded", async () => {
  const film = await pickFilm(stage);
  let asked = 0;
  const tooLong = {
    type: "urn:reel:problem:too-long",
    title: "This title is too long to be played",
    status: 503,
    detail: "It lasts 30 hours, and sessions last 24.",
    retry_after_s: 1,
  };
  const { page, shot, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: (page) =>
      page.route("**/api/v1/sessions", (route) => {
        asked += 1;
        return route.fulfill({
          status: 503,
          contentType: "application/problem+json",
          headers: { "retry-after": "1" },
          body: JSON.stringify(tooLong),
        });
      }),
  });
  await page.waitForSelector(".message .failure");
  assert.match((await page.textContent(".message")) ?? "", /too long to be played.*30 hours/s);
  assert.equal(await page.locator(".refusal-count").count(), 0, "nothing is counted down");
  assert.equal(await page.locator(".message >> text=Try again").count(), 0);
  assert.equal(await page.locator(".message >> text=Download").getAttribute("href"), film.download);
  assert.equal(asked, 1);
  await shot("player-too-long");
  await close();
});
