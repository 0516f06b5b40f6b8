import assert from "node:assert/strict";
import { test } from "node:test";
import type { Route } from "playwright-core";
import type { Session } from "../../src/api/types.ts";
import { clock } from "../../src/format.ts";
import {
  begin,
  chooseSmallest,
  pickFilm,
  press,
  sessionKey,
  until,
  untilPlayed,
  useStage,
  videoState,
  type Window,
  windows,
} from "./harness.ts";

const stage = useStage();

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
  retry_after_s: 3,
};

for (const window of Object.keys(windows) as Window[]) {
  test(`a refusal says what is short and is tried again by itself (${window})`, async () => {
    const film = await pickFilm(stage);
    let refused = 0;
    const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
      window,
      expected: /503/,
      prepare: (page) =>
        page.route("**/api/v1/sessions", async (route: Route) => {
          if (refused > 0) return route.continue();
          refused += 1;
          return route.fulfill({
            status: 503,
            contentType: "application/problem+json",
            headers: { "retry-after": "3" },
            body: JSON.stringify(refusal),
          });
        }),
    });
    await page.waitForSelector(".refusal");
    const words = (await page.textContent(".message")) ?? "";
    assert.match(words, /Disk 2 is reserved/);
    assert.match(words, /needs 8\.2 ms in each second, and 3\.1 ms is left/);
    assert.match(words, /up to 3\.1 Mb\/s could start now/);
    assert.match(words, /Trying again in \d seconds?/);
    await shot(`refusal-${window}`);
    await begin(page);
    assert.equal(await page.isVisible(".refusal"), false);
    calm();
    await close();
  });
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
  const STARTS_IN_MS = 3000;
  let opened_ms = 0;
  const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
    prepare: async (page) => {
      await page.route("**/api/v1/sessions", async (route: Route) => {
        const response = await route.fetch();
        const session = (await response.json()) as Session;
        opened_ms = Date.now();
        return route.fulfill({ response, json: { ...session, starts_in_s: STARTS_IN_MS / 1000 } });
      });
      // As the server does: it sends no media before that.
      await page.route(/\/s\/.*\.(m4s|mp4)$/, async (route: Route) => {
        await new Promise((go) => setTimeout(go, opened_ms + STARTS_IN_MS - Date.now()));
        return route.continue();
      });
    },
  });
  await page.waitForFunction(() =>
    /^Starts in [123] s$/.test(document.querySelector(".waiting-text")?.textContent ?? ""),
  );
  await shot("starts-later");
  await begin(page);
  await untilPlayed(page, 0.3);
  assert.equal(await page.isVisible(".waiting"), false);
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
    await page.click('[data-control="quality"]');
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
    `the refused quality is not asked for again and again: ${asked.join(" ")}`,
  );
  assert.equal(await page.isVisible(".message"), false, "nothing is said of it");
  await close();
});

test("a film that is refused on its way plays what it has, then says so, and goes on where it was", async () => {
  const film = await pickFilm(stage);
  let refuse = true;
  const { page, shot, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: (page) =>
      page.route(/\/s\/[^/]+\/\d+\/([3-9]|\d\d+)\.m4s$/, (route) =>
        refuse
          ? route.fulfill({
              status: 503,
              contentType: "application/problem+json",
              body: JSON.stringify({ ...refusal, retry_after_s: 2 }),
            })
          : route.continue(),
      ),
  });
  await press(page);
  await page.waitForSelector(".refusal");
  assert.notEqual(await page.textContent(".time-now"), clock(0), "it played what it had");
  assert.match((await page.textContent(".message")) ?? "", /Disk 2 is reserved.*Trying again in \d second/s);
  await shot("player-refused-later");
  refuse = false;
  await untilPlayed(page, 0.5);
  assert.ok((await videoState(page)).currentTime > 4, "not from the beginning");
  await close();
});

test("a paused film that is refused where its viewer goes is shown there when there is room, and stays paused", async () => {
  const film = await pickFilm(stage);
  let refuse = true;
  const { page, close } = await stage.open(`/title/${film.id}`, {
    expected: /503/,
    prepare: (page) =>
      page.route(/\/s\/[^/]+\/\d+\/([3-9]|\d\d+)\.m4s$/, (route) =>
        refuse
          ? route.fulfill({
              status: 503,
              contentType: "application/problem+json",
              body: JSON.stringify({ ...refusal, retry_after_s: 2 }),
            })
          : route.continue(),
      ),
  });
  await begin(page);
  await page.keyboard.press("k");
  await page.waitForFunction(() => document.querySelector("video")?.paused);
  await page.keyboard.press("6");
  await page.waitForSelector(".refusal");
  refuse = false;
  await page.waitForSelector(".refusal", { state: "hidden" });
  await page.waitForFunction((at_s) => {
    const video = document.querySelector("video");
    return video && video.readyState >= 2 && !video.seeking && Math.abs(video.currentTime - at_s) < 0.5;
  }, film.duration_s * 0.6);
  // Long enough for a title that would begin to play.
  await page.waitForTimeout(1000);
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

test("a session that ended is opened anew and the film goes on", async () => {
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
  await page.hover("video");
  await page.click('[data-control="sound"]');
  await page.locator(".menu .menu-item").nth(1).click();
  await page.click('[data-control="subtitles"]');
  hold = false;
  for (const route of late) await route.continue();
  await page.waitForSelector('[data-control="sound"]:disabled');
  assert.equal(await page.isVisible('[data-control="sound"]'), true, "it does not come and go");
  await shot("player-opened-anew");
  await page.locator(".menu .menu-item").nth(1).click();

  await until(() => opening.length > 0, "another session is asked for");
  assert.equal(opening.length, 1, "one session is asked for");
  await page.waitForFunction(() => document.querySelector("video")?.readyState === 0);
  await page.waitForTimeout(200);
  assert.equal(await page.isVisible(".big-play"), false, "it goes on by itself: there is nothing to press");
  await page.keyboard.press("6");
  await page.keyboard.press("ArrowRight");
  holdOpening = false;
  for (const route of opening) await route.continue();
  await page.waitForFunction(
    async () =>
      ((await (await fetch("/api/v1/sessions")).json()) as { sessions: unknown[] }).sessions.length > 0,
  );
  await untilPlayed(page, 1);
  assert.equal(await page.isVisible(".message"), false);
  assert.ok(
    (await videoState(page)).currentTime >= film.duration_s * 0.6 + 5,
    "it plays where the viewer went meanwhile",
  );
  assert.equal((await videoState(page)).playbackRate, 0.75, "the speed stands");
  for (const control of ["sound", "subtitles"]) {
    await page.hover("video");
    await page.click(`[data-control="${control}"]`);
    assert.equal(
      await page.locator(".menu .menu-item").nth(1).getAttribute("aria-checked"),
      "true",
      `the choice of ${control} stands`,
    );
    await page.keyboard.press("Escape");
  }
  if (film.video.length > 1) {
    await page.click('[data-control="quality"]');
    assert.match(
      (await page.textContent('.menu-item[aria-checked="true"]')) ?? "",
      new RegExp(`${smallest.width}×`),
      "the chosen quality stands",
    );
  }
  await close();
});

test("sessions may end as often as they like while the film goes on between, and the sound stays the one chosen", async () => {
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
    await page.hover("video");
    await page.click('[data-control="sound"]');
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
    await page.hover("video");
    await page.click('[data-control="sound"]');
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

test("one MP4 whose session ended goes on too", async () => {
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
  await untilPlayed(page, 0.5);
  assert.ok((await videoState(page)).currentTime >= film.duration_s * 0.9);
  assert.equal(await page.isVisible(".message"), false);
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
      const first_s = await page.evaluate(
        () => document.querySelector("video")?.played.start(0) ?? Number.NaN,
      );
      assert.ok(Math.abs(first_s - at_s) < 0.5, `it begins at ${first_s} s instead of ${at_s} s`);
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
    const first_s = await page.evaluate(() => document.querySelector("video")?.played.start(0));
    assert.ok(Math.abs((first_s ?? 0) - (left_s + 5)) < 0.5, `it begins at ${first_s} s`);
    calm();
    await close();
  });
}

test("a film whose bytes stop coming is said to stall, then goes on", async () => {
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

test("a film the browser cannot decode is said to be one, with the way out", async () => {
  const film = await pickFilm(stage);
  const { page, shot, close } = await stage.open(`/title/${film.id}`, {
    expected: /./,
    prepare: (page) =>
      page.route("**/master.m3u8", async (route) => {
        const answer = await route.fetch();
        const body = (await answer.text()).replace(/avc1\.[0-9a-f]+/gi, "hvc1.2.4.L150.B0");
        return route.fulfill({ response: answer, body });
      }),
  });
  await page.waitForSelector(".message .failure");
  assert.match((await page.textContent(".message")) ?? "", /This browser cannot play.*VLC or mpv/s);
  await shot("player-unsupported");
  await close();
});

test("a title that is not there, and a page that is not there", async () => {
  const { page, shot, close } = await stage.open("/title/no-such-film", { expected: /404/ });
  await page.waitForSelector(".failure");
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
