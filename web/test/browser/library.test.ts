import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Title } from "../../src/api/types.ts";
import { until, useStage, type Window, windows } from "./harness.ts";

const stage = useStage();

/** One disk is missing; another is not where it was, which needs nothing to be done. */
const degraded = {
  writable: true,
  read_only: null,
  state: "degraded",
  bytes: 1e12,
  free_bytes: 4e11,
  members: [0, 1, 2, 3, 4].map((n) =>
    n === 2
      ? {
          member: n,
          state: "missing",
          in_use: false,
          text: "member 2 (/srv/reel/2.member) is missing: no such file",
        }
      : { member: n, state: n === 3 ? "swapped" : "present", in_use: true, text: "" },
  ),
};

for (const window of Object.keys(windows) as Window[]) {
  for (const scheme of ["dark", "light"] as const) {
    test(`the library shows every title with its picture (${window}, ${scheme})`, async () => {
      const { page, calm, shot, close } = await stage.open("/", { window, scheme });
      const titles = await stage.titles();
      await page.waitForSelector(".grid:not(.skeleton) .card");
      assert.equal(await page.locator(".card").count(), titles.length);
      const shown = await page.locator(".card-name").allTextContents();
      assert.deepEqual(new Set(shown), new Set(titles.map((title) => title.name)));
      for (const card of await page.locator(".card").all()) {
        await card.scrollIntoViewIfNeeded();
        await card.locator(".poster > .loaded").waitFor();
      }
      await page.evaluate(() => scrollTo(0, 0));
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
      await shot(`library-${window}-${scheme}`);
      calm();
      await close();
    });
  }
}

test("what was left out of a title is marked in the library, and its page says it", async () => {
  const warnings = ["3 packets are missing at 0:04", "0.2 s of sound are left out"];
  const [first, ...rest] = await stage.titles();
  assert.ok(first);
  const title = { ...first, warnings };
  const { page, shot, calm, close } = await stage.open("/", {
    prepare: async (page) => {
      await page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles: [title, ...rest] } }));
      await page.route(`**/api/v1/titles/${title.id}`, (route) => route.fulfill({ json: title }));
    },
  });
  const marked = page.locator(".card:has(.card-warned)");
  await marked.waitFor();
  assert.equal(await marked.count(), 1);
  assert.equal(await marked.getAttribute("data-id"), title.id);
  assert.match((await marked.locator(".card-meta").textContent()) ?? "", /^2 warnings\. /);
  await shot("library-warnings");
  await marked.locator(".card-link").click();
  await page.locator(".details-warnings").scrollIntoViewIfNeeded();
  assert.deepEqual(await page.locator(".details-warnings li").allTextContents(), warnings);
  await shot("title-warnings");
  calm();
  await close();
});

test("typing filters, accents and case do not matter, and the address keeps it", async () => {
  const { page, calm, shot, close } = await stage.open("/");
  await page.waitForSelector(".card");
  const title = (await stage.titles())[0];
  assert.ok(title);
  await page.keyboard.press("/");
  await page.keyboard.type(title.name.toUpperCase());
  await page.waitForFunction(
    (name) => [...document.querySelectorAll(".card-name")].every((element) => element.textContent === name),
    title.name,
  );
  assert.match(page.url(), /\?q=/);
  await page.keyboard.press("Escape");
  await page.waitForFunction(
    (count) => document.querySelectorAll(".card").length === count,
    (await stage.titles()).length,
  );
  await page.fill(".search-input", "zzzz no such film");
  await page.waitForSelector("text=Nothing matches");
  await shot("library-nothing-found");
  await page.click("text=Show all titles");
  await page.waitForSelector(".card");
  calm();
  await close();
});

test("what did not change stays when the server is asked again: the focus, and a notice that was read out", async () => {
  let titles = await stage.titles();
  let asked = 0;
  const { page, calm, close } = await stage.open("/", {
    prepare: async (page) => {
      await page.clock.install();
      await page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles } }));
      await page.route("**/api/v1/volume", (route) => {
        asked += 1;
        return route.fulfill({ json: degraded });
      });
    },
  });
  await page.waitForSelector(".notice");
  const link = page.locator(".card .card-link").first();
  const focused = () =>
    page.evaluate(() => document.activeElement?.closest(".card, .empty")?.textContent ?? "");
  await link.focus();
  const name = await focused();
  const notice = await page.$(".notice");
  // A page that asks for the fourth time has handled the third answer.
  await until(async () => {
    await page.clock.fastForward(16_000);
    return asked >= 4;
  }, "the volume is asked for again");
  assert.equal(await focused(), name);
  assert.ok(await notice?.evaluate((element) => element.isConnected), "the notice is not made again");

  // Another film comes, and later goes.
  const [first] = titles;
  assert.ok(first);
  const another = page.locator('.card[data-id="another"]');
  titles = [
    { ...first, id: "another", name: "Another", poster: "", added: new Date().toISOString() },
    ...titles,
  ];
  await until(async () => {
    await page.clock.fastForward(11_000);
    return (await another.count()) === 1;
  }, "the other film is listed");
  assert.equal(await page.locator(".card").first().getAttribute("data-id"), "another");
  assert.equal(await focused(), name);
  titles = titles.slice(1);
  await until(async () => {
    await page.clock.fastForward(11_000);
    return (await another.count()) === 0;
  }, "the other film is gone");
  assert.equal(await focused(), name);

  await page.fill(".search-input", "zzzz no such film");
  await page.focus("text=Show all titles");
  titles = [...titles, { ...first, id: "another", name: "Another", poster: "" }];
  await until(async () => {
    await page.clock.fastForward(11_000);
    return (await page.textContent(".tally"))?.startsWith(`0 of ${titles.length} `) === true;
  }, "the other film is counted");
  assert.match(await focused(), /Show all titles/);
  calm();
  await close();
});

test("sorting by name puts the names in order", async () => {
  const { page, calm, close } = await stage.open("/");
  await page.waitForSelector(".card");
  await page.selectOption(".select", "name");
  const names = await page.locator(".card-name").allTextContents();
  assert.deepEqual(
    names,
    [...names].sort(new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare),
  );
  calm();
  await close();
});

test("a film is sent, stored, listed, and deleted after being asked", async () => {
  const { page, calm, shot, close } = await stage.open("/");
  await page.waitForSelector(".library-content > *");
  await page.setInputFiles("input[type=file]", {
    name: "My_test film.mkv",
    mimeType: "video/x-matroska",
    buffer: readFileSync(join(stage.media, "upload.mkv")),
  });
  await page.waitForSelector(".tray-item");
  await shot("upload-running");
  await page.waitForSelector('.tray-item[data-state="done"]');
  await shot("upload-done");
  assert.match((await page.textContent(".tray-line")) ?? "", /^Ready to watch/);
  const card = page.locator(".card", { hasText: "My_test film" });
  await card.waitFor();
  await page.click(".tray-item .icon-button");
  await page.waitForSelector(".tray", { state: "hidden" });

  await card.hover();
  await card.locator(".card-more").click();
  await shot("card-menu");
  await page.click(".menu-item.danger");
  await page.waitForSelector("dialog[open]");
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Cancel",
    "the harmless choice has the focus",
  );
  await shot("delete-confirm");
  await page.keyboard.press("Escape");
  assert.ok((await stage.titles()).some((title) => title.name === "My_test film"));
  await card.hover();
  await card.locator(".card-more").click();
  await page.click(".menu-item.danger");
  await page.click("dialog .button.danger");
  await card.waitFor({ state: "detached" });
  assert.ok(!(await stage.titles()).some((title) => title.name === "My_test film"));
  calm();
  await close();
});

test("a file that is no film is refused in words", async () => {
  const { page, shot, close } = await stage.open("/", { expected: /answered 4|status of 4/ });
  await page.waitForSelector(".library-content > *");
  await page.setInputFiles("input[type=file]", {
    name: "letter.mp4",
    mimeType: "video/mp4",
    buffer: Buffer.from("fail: Dear Sir, this is not a film. ".repeat(400)),
  });
  await page.waitForSelector('.tray-item[data-state="failed"]');
  const words = (await page.textContent(".tray-line")) ?? "";
  assert.ok(words.length > 20, `too few words: ${words}`);
  await shot("upload-refused");
  await close();
});

test("dragging a file over the page shows where it goes", async () => {
  const { page, calm, shot, close } = await stage.open("/");
  await page.waitForSelector(".library-content > *");
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["x"], "film.mp4"));
    window.dispatchEvent(new DragEvent("dragenter", { dataTransfer: data, bubbles: true }));
  });
  await page.waitForSelector(".drop-veil", { state: "visible" });
  await shot("drop");
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["x"], "film.mp4"));
    window.dispatchEvent(new DragEvent("dragleave", { dataTransfer: data, bubbles: true }));
  });
  await page.waitForSelector(".drop-veil", { state: "hidden" });
  calm();
  await close();
});

for (const window of Object.keys(windows) as Window[]) {
  test(`an empty library explains how films come in (${window})`, async () => {
    const { page, calm, shot, close } = await stage.open("/", {
      window,
      prepare: (page) => page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles: [] } })),
    });
    await page.waitForSelector("text=No films yet");
    assert.match((await page.textContent(".empty")) ?? "", /reel ingest/);
    await shot(`library-empty-${window}`);
    calm();
    await close();
  });
}

test("of the watched directory the library says which files are no titles, and why", async () => {
  const file = { bytes: 1, state: "skipped", reason: null, title_id: null, warnings: [] };
  const taken = { ...file, state: "taken", title_id: "a" };
  const files = [
    { ...file, path: "caf\ufffd.ts", reason: "its name is not UTF-8; rename it" },
    { ...file, path: "b/link.ts", reason: "it is the same file as b/film.ts" },
    { ...file, path: "locked", reason: "Permission denied (os error 13)" },
    { ...file, path: "news.ts", state: "waiting", reason: "it is ingested when it has not changed for 27 s" },
    { ...taken, path: "torn.ts", warnings: ["3 packets are missing at 0:04", "0.2 s of sound are left out"] },
    { ...taken, path: "whole.ts" },
  ];
  let holds = files;
  const { page, shot, calm, close } = await stage.open("/", {
    prepare: async (page) => {
      await page.clock.install();
      await page.route("**/api/v1/watch", (route) =>
        route.fulfill({ json: { directory: "/films", problem: null, files: holds, more: 0 } }),
      );
    },
  });
  await page.waitForSelector(".notice");
  const summary = (await page.textContent(".notice summary")) ?? "";
  assert.match(summary, /3 files .* are no titles\. 1 file .* may be incomplete\. 1 file .* with warnings/s);
  assert.equal(await page.isVisible(".watched-files"), false, "the reasons are opened first");
  await page.click(".notice summary");
  await page.waitForSelector(".watched-files");
  assert.deepEqual(await page.locator(".watched-files li").allTextContents(), [
    "caf\ufffd.ts its name is not UTF-8; rename it",
    "b/link.ts it is the same file as b/film.ts",
    "locked Permission denied",
    "news.ts it is ingested when it has not changed for 27 s",
    "torn.ts 3 packets are missing at 0:04; 0.2 s of sound are left out",
  ]);
  await shot("watched-files");
  // The list stays open when it changes; when all is well, nothing is said.
  holds = files.slice(1);
  await page.clock.fastForward(20_000);
  await page.waitForFunction(() => document.querySelectorAll(".watched-files li").length === 4);
  assert.ok(await page.isVisible(".watched-files"));
  holds = files.slice(5);
  await page.clock.fastForward(20_000);
  await page.waitForSelector(".notice", { state: "detached" });
  calm();
  await close();
});

test("why the watched directory cannot be read is said by the dashboard only", async () => {
  const problem = "/films: No such file or directory (os error 2)";
  const { page, shot, calm, close } = await stage.open("/", {
    prepare: (page) =>
      page.route("**/api/v1/watch", (route) =>
        route.fulfill({ json: { directory: "/films", problem, files: [], more: 0 } }),
      ),
  });
  await page.waitForSelector(".notice");
  const told = (await page.textContent(".notice")) ?? "";
  assert.match(told, /directory cannot be read/);
  assert.doesNotMatch(told, /os error 2/);
  await page.click(".notice a");
  await page.waitForSelector(".dashboard .notice-place .notice");
  assert.match((await page.textContent(".dashboard .notice-place .notice")) ?? "", /os error 2/);
  await shot("watched-directory");
  calm();
  await close();
});

/** Two titles at least: a real server may have one, and an empty library shows no free space. */
async function severalTitles(): Promise<Title[]> {
  const titles = await stage.titles();
  const first = titles[0];
  assert.ok(first);
  return [...titles, { ...first, id: "another", name: "Another" }];
}

test("the free space is asked for again as soon as a title has come or gone", async () => {
  const titles = await severalTitles();
  const [gone, ...others] = titles;
  assert.ok(gone);
  let shown = { titles, free_bytes: 4e11 };
  const { page, calm, close } = await stage.open("/", {
    prepare: async (page) => {
      // The clock runs as soon as it is installed, and cannot be stopped at a time that has passed.
      await page.clock.install({ time: 0 });
      await page.clock.pauseAt(600_000);
      await page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles: shown.titles } }));
      await page.route("**/api/v1/volume", (route) =>
        route.fulfill({ json: { ...degraded, state: "ok", members: [], free_bytes: shown.free_bytes } }),
      );
    },
  });
  const free = (text: string) => page.locator(".tally-size", { hasText: text }).waitFor();
  await free("400 GB free");
  // The list is asked for each ten seconds, the volume each fifteen: now at 11, 17 and 22 s.
  const newest = { ...gone, id: "newest", name: "Newest" };
  shown = { titles: [...titles, newest], free_bytes: 3.99e11 };
  await page.clock.runFor(10_500);
  await page.locator(".card", { hasText: "Newest" }).waitFor();
  await free("399 GB free");
  await page.clock.runFor(6000);
  shown = { titles: others, free_bytes: 4.03e11 };
  await page.clock.runFor(5000);
  await free("403 GB free");
  calm();
  await close();
});

test("an answer about the volume that comes after a newer one changes nothing", async () => {
  let titles = await severalTitles();
  let asked = 0;
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  const { page, calm, close } = await stage.open("/", {
    prepare: async (page) => {
      await page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles } }));
      await page.route("**/api/v1/volume", async (route) => {
        asked += 1;
        const json = { ...degraded, state: "ok", members: [], free_bytes: asked === 1 ? 4e11 : 3.99e11 };
        if (asked === 1) await held;
        await route.fulfill({ json });
      });
    },
  });
  await until(() => asked === 1, "the volume is asked for");
  await page.locator(".card", { hasText: "Another" }).waitFor();
  titles = titles.slice(1);
  // The page asks for the list when it is looked at again.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  const size = page.locator(".tally-size");
  await size.filter({ hasText: "399 GB free" }).waitFor();
  const older = page.waitForResponse("**/api/v1/volume");
  release();
  await (await older).finished();
  // The page has read the answer when one that it asks for later has come.
  await page.evaluate(() => fetch("/api/v1/titles").then((response) => response.text()));
  assert.match((await size.textContent()) ?? "", /399 GB free/);
  calm();
  await close();
});

test("the label of a size is that of its lines", async () => {
  const titles = await stage.titles();
  const sizes = [
    [960, 540, "540p"],
    [854, 480, "480p"],
    [1920, 804, "1080p"],
  ] as const;
  const shown = sizes.map(([width, height], i) => {
    const title = titles[0];
    assert.ok(title);
    const video = title.video.slice(0, 1).map((track) => ({ ...track, width, height }));
    return { ...title, id: `size-${i}`, name: `${width} x ${height}`, video };
  });
  const { page, calm, close } = await stage.open("/", {
    prepare: (page) => page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles: shown } })),
  });
  for (const [width, height, label] of sizes) {
    const card = page.locator(".card", { hasText: `${width} x ${height}` });
    await card.waitFor();
    assert.ok(((await card.textContent()) ?? "").includes(label), `${width} x ${height} is ${label}`);
  }
  calm();
  await close();
});

test("a disk that is missing is told of, and a server that fails is too", async () => {
  const { page, shot, calm, close } = await stage.open("/", {
    prepare: (page) => page.route("**/api/v1/volume", (route) => route.fulfill({ json: degraded })),
  });
  await page.waitForSelector(".notice");
  assert.match((await page.textContent(".notice")) ?? "", /1 of 5 disks.*member 2/s);
  await shot("volume-degraded");
  calm();
  await close();

  const reason = "it was taken over by process 7 on host attic, and nothing more is written here";
  const fenced = { ...degraded, state: "ok", members: [], writable: false, read_only: reason };
  const readOnly = await stage.open("/", {
    prepare: (page) => page.route("**/api/v1/volume", (route) => route.fulfill({ json: fenced })),
  });
  await readOnly.page.waitForSelector(".notice");
  const words = (await readOnly.page.textContent(".notice")) ?? "";
  assert.match(words, /cannot be added or removed.*dashboard says why/s);
  assert.doesNotMatch(words, /attic/, "the reason is for the operator");
  readOnly.calm();
  await readOnly.close();

  let asked = 0;
  const failing = await stage.open("/", {
    expected: /500/,
    prepare: (page) =>
      page.route("**/api/v1/titles", (route) => {
        asked += 1;
        return route.fulfill({
          status: 500,
          contentType: "application/problem+json",
          body: JSON.stringify({
            title: "The catalogue cannot be read",
            detail: "Three of five members are missing (os error 2).",
          }),
        });
      }),
  });
  const told = await failing.page.waitForSelector(".failure");
  assert.match(
    (await failing.page.textContent(".failure")) ?? "",
    /catalogue cannot be read.*Three of five/s,
  );
  assert.equal(await failing.page.isVisible("text=os error 2"), false, "the reason is for the operator");
  await failing.shot("library-failure");
  // The page asks again after a while; the button keeps the focus meanwhile.
  await failing.page.focus(".failure .button");
  // Once it has drawn after the answers, it has handled them.
  for (const times of [2, 3]) {
    const answered = failing.page.waitForResponse("**/api/v1/titles");
    await failing.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await (await answered).finished();
    await until(() => asked >= times, "the titles are asked for again");
    await failing.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(drawn)));
  }
  assert.ok(
    await told.evaluate((element) => element.isConnected && element.contains(document.activeElement)),
    "it is not read out again, and keeps the focus",
  );
  await failing.close();
});
