import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Dashboard, TrafficClass } from "../../src/api/types.ts";
import { begin, pickFilm, until, useStage, type Window, windows } from "./harness.ts";

const stage = useStage();

/** What the classes were, for a real server that others use afterwards. */
let before: TrafficClass[] | undefined;
after(async () => {
  if (before && stage.mock === undefined)
    await fetch(`${stage.url}/api/v1/classes`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(before),
    });
});

for (const window of Object.keys(windows) as Window[]) {
  test(`the dashboard shows disks and sessions while a title plays (${window})`, async () => {
    const film = await pickFilm(stage);
    const player = await stage.open(`/title/${film.id}`);
    await begin(player.page);
    const mine = await player.page.evaluate(
      () =>
        performance
          .getEntriesByType("resource")
          .map((entry) => /\/s\/([^/]+)\//.exec(entry.name)?.[1])
          .find(Boolean) ?? "",
    );
    // Others may watch the same film on a real server; only this much of a key is shown.
    const hint = `${stage.mock ? mine.padEnd(4, "0").slice(0, 4) : mine.slice(0, 4)}…`;
    for (const key of stage.mock ? ["7c01", "e93a", "51d8"] : [])
      stage.mock?.sessions.set(key, stage.mock.titles[key.length % 3]?.id ?? film.id);

    const { page, shot, calm, close } = await stage.open("/", { window });
    await page.click(".to-dashboard");
    await page.waitForSelector(".member");
    assert.equal(await page.title(), "Dashboard · Reel");
    const disks = await page.locator(".member h3").allTextContents();
    assert.ok(disks.length >= 2 && disks[0] === "Disk 0", disks.join());
    const row = page.locator(".sessions tbody tr", { hasText: hint });
    assert.match((await row.textContent()) ?? "", /Playing|Nothing reserved/);
    // Until the names of the titles have come, the row has the identifier.
    await row.locator("th").getByText(film.name, { exact: true }).waitFor();
    assert.match(
      (await page.textContent(".tally")) ?? "",
      /\d+ sessions? · \d+ promised · all \d+ disks in use/,
    );
    assert.match(
      (await page.textContent(".member .member-facts")) ?? "",
      /Rounds.*Waiting.*Late.*Errors.*A read/s,
    );
    // A price that is far from the measured one is shown with it, and others are not.
    if (stage.mock) {
      const measured = page.locator(".member-facts", { hasText: "As measured" });
      assert.equal(await measured.count(), 1);
      assert.match((await measured.textContent()) ?? "", /A read113 µs \+ .*As measured23.* ms \+ /s);
    }

    // It is updated: the chart gets longer, the round continues.
    const drawn = () =>
      page.evaluate(
        () => document.querySelector(".chart-slack")?.getAttribute("points")?.split(" ").length ?? 0,
      );
    const then = await drawn();
    await page.waitForFunction(
      (least) =>
        (document.querySelector(".chart-slack")?.getAttribute("points")?.split(" ").length ?? 0) >= least,
      then + 3,
    );
    assert.match(
      (await page.getAttribute(".chart", "aria-label")) ?? "",
      /Slack of disk 0 .* now, .* at least/,
    );

    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < 2600, `the page is ${height} px long`);
    await shot(`dashboard-${window}`);
    await page.screenshot({
      path: `${process.env.REEL_TEST_OUT ?? "test-results"}/dashboard-${window}-whole.png`,
      fullPage: true,
      animations: "disabled",
    });
    calm();
    for (const key of ["7c01", "e93a", "51d8"]) stage.mock?.sessions.delete(key);

    // The film ends, and so does its row.
    await player.page.goto("about:blank");
    await page.waitForFunction(
      (gone) =>
        ![...document.querySelectorAll(".sessions .cell-key")].some((cell) => cell.textContent === gone),
      hint,
    );
    await close();
    await player.close();
  });
}

test("shares are changed in place, and a wrong sum is refused in words", async () => {
  before = (
    (await (await fetch(`${stage.url}/api/v1/dashboard`)).json()) as { classes: TrafficClass[] }
  ).classes.map(({ name, kind, share_permille, network_permille }) => ({
    name,
    kind,
    share_permille,
    network_permille,
  }));
  let asked = 0;
  const { page, shot, close } = await stage.open("/dashboard", {
    prepare: async (page) => {
      await page.clock.install();
      await page.route("**/api/v1/dashboard", (route) => {
        asked += 1;
        return route.continue();
      });
    },
  });
  const share = (name: string) => page.getByLabel(`Share of ${name} in percent`);
  await share("periodic").fill("80");
  assert.match((await page.textContent(".share-sum")) ?? "", /110% in all/);
  // A field that is being edited survives the server's next answers: a page that asks for the third
  // time has handled two.
  const then = asked;
  await until(async () => {
    await page.clock.fastForward(1000);
    return asked >= then + 3;
  }, "the server is asked again");
  assert.equal(await share("periodic").inputValue(), "80");
  await page.click("text=Save shares");
  await page.waitForSelector(".share-error:visible");
  assert.match(
    (await page.textContent(".classes .share-error")) ?? "",
    /^The shares make 110%; they must make 100%\.$/,
  );
  await shot("dashboard-shares-refused");
  await share("periodic").fill("much");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() =>
    /“much” is not a valid share for periodic/.test(
      document.querySelector(".classes .share-error")?.textContent ?? "",
    ),
  );

  await share("periodic").fill("62.5");
  await share("aperiodic").fill("22.5");
  await page.getByLabel("Share of periodic of the network in percent").fill("80");
  await page.getByLabel("Share of aperiodic of the network in percent").fill("12.5");
  await page.click("text=Save shares");
  await page.waitForSelector(".share-actions", { state: "hidden" });
  const now = (await (await fetch(`${stage.url}/api/v1/dashboard`)).json()) as { classes: TrafficClass[] };
  assert.deepEqual(
    now.classes.slice(0, 3).map(({ share_permille }) => share_permille),
    [625, 150, 225],
  );
  assert.deepEqual(
    now.classes.slice(0, 3).map(({ network_permille }) => network_permille),
    [800, 75, 125],
  );
  assert.equal(await page.isVisible(".classes .share-error"), false);
  await share("periodic").fill("1");
  await page.click("text=Undo");
  assert.equal(await share("periodic").inputValue(), "62.5");
  await close();
});

test("a scrub is begun, shown, and ended by hand", {
  skip: process.env.REEL_URL !== undefined && "a small volume is scrubbed before anybody can look",
}, async () => {
  const { page, shot, calm, close } = await stage.open("/dashboard", { window: "phone" });
  await page.click("text=Scrub");
  await page.waitForSelector(".job progress:visible");
  assert.ok(await page.isDisabled(".job-buttons >> text=Scrub"), "one at a time");
  await page.waitForFunction(() =>
    /MB of 41 GB|GB of 41 GB/.test(document.querySelector(".job .tray-line")?.textContent ?? ""),
  );
  await page.locator(".job").scrollIntoViewIfNeeded();
  await shot("dashboard-scrub");
  assert.equal(await page.isVisible(".tray"), false, "it is no film being added");
  await page.click(".job >> text=Cancel");
  await page.waitForFunction(() => document.querySelector(".job .tray-line")?.textContent === "Cancelled");
  assert.equal(await page.isDisabled(".job-buttons >> text=Scrub"), false);
  calm();
  await close();
});

test("the server goes away and comes back", async () => {
  let away = false;
  const { page, shot, close } = await stage.open("/dashboard", {
    expected: /./,
    prepare: (page) =>
      page.route("**/api/v1/dashboard", (route) =>
        away ? route.abort("connectionrefused") : route.continue(),
      ),
  });
  await page.waitForSelector(".member");
  away = true;
  await page.waitForSelector("text=/What is shown is \\d+ seconds? old/");
  assert.equal(
    await page.locator(".dashboard [role=alert]:visible").textContent(),
    "Reel does not answer",
    "its age is not read out every second",
  );
  await shot("dashboard-server-away");
  away = false;
  await page.waitForSelector(".notice.failed", { state: "hidden" });
  await close();
});

test("a server that never answers is reported once", async () => {
  let asked = 0;
  const { page, shot, close } = await stage.open("/dashboard", {
    expected: /./,
    prepare: async (page) => {
      await page.clock.install();
      await page.route("**/api/v1/dashboard", (route) => {
        asked += 1;
        return route.abort("connectionrefused");
      });
    },
  });
  const told = await page.waitForSelector(".dashboard .failure");
  const then = asked;
  await until(async () => {
    await page.clock.fastForward(1000);
    return asked >= then + 3;
  }, "it is asked again");
  assert.ok(
    await told.evaluate((element) => element.isConnected),
    "what is said is not replaced, since that would be read out again",
  );
  await shot("dashboard-server-never-there");
  await close();
});

test("a title is shown by its name as soon as the name is known", async () => {
  const film = await pickFilm(stage);
  const player = await stage.open(`/title/${film.id}`);
  await begin(player.page);
  let away = true;
  const { page, close } = await stage.open("/dashboard", {
    expected: /./,
    prepare: async (page) => {
      await page.route("**/api/v1/titles", (route) =>
        away ? route.abort("connectionrefused") : route.continue(),
      );
      // The names are asked for every ten seconds of the server's time.
      await page.route("**/api/v1/dashboard", async (route) => {
        const response = await route.fetch();
        const dashboard = (await response.json()) as Dashboard;
        return route.fulfill({ response, json: { ...dashboard, now_s: dashboard.now_s * 10 } });
      });
    },
  });
  await page.waitForSelector(".sessions tbody th");
  away = false;
  await page.waitForFunction(
    (name) => [...document.querySelectorAll(".sessions tbody th")].some((cell) => cell.textContent === name),
    film.name,
  );
  await close();
  await player.close();
});

test("a server that accepts a request and never answers is reported too", async () => {
  let silent = false;
  const { page, close } = await stage.open("/dashboard", {
    prepare: async (page) => {
      // A page that waits ten seconds for an answer waits two here.
      await page.addInitScript(() => {
        const { timeout } = AbortSignal;
        AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 5);
      });
      await page.route("**/api/v1/dashboard", (route) => (silent ? undefined : route.continue()));
    },
  });
  await page.waitForSelector(".member");
  silent = true;
  await page.waitForSelector(".notice.failed");
  assert.match((await page.textContent(".notice.failed")) ?? "", /^Reel does not answer/);
  silent = false;
  await page.waitForSelector(".notice.failed", { state: "hidden" });
  await close();
});

test("a hidden page sends no requests", async () => {
  let asked = 0;
  const { page, close } = await stage.open("/dashboard", {
    prepare: async (page) => {
      await page.clock.install();
      await page.route("**/api/v1/dashboard", (route) => {
        asked += 1;
        return route.continue();
      });
    },
  });
  await page.waitForSelector(".member");
  const hide = (state: string) =>
    page.evaluate((to) => {
      Object.defineProperty(document, "visibilityState", { value: to, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  // Requests of a page reach the tests in order: after this one, all before it are counted.
  const counted = async () => {
    await page.evaluate(async () => (await fetch("/api/v1/volume")).text());
    return asked;
  };
  await hide("hidden");
  const then = await counted();
  await page.clock.runFor(10_000);
  assert.equal(await counted(), then);
  await hide("visible");
  await until(() => asked > then, "it is asked again when the page is visible");
  await close();
});

const brokenOnPurpose = {
  skip: process.env.REEL_URL !== undefined && "no disk of a real server is broken for this",
};

for (const window of Object.keys(windows) as Window[]) {
  test(
    `a disk that is missing is said to be, and is given a replacement (${window})`,
    brokenOnPurpose,
    async () => {
      const promises = stage.mock?.promises;
      assert.ok(promises);
      const { page, shot, close } = await stage.open("/dashboard", {
        window,
        scheme: "light",
        expected: /422/,
      });
      await page.waitForSelector(".member");
      assert.equal(await page.isVisible("text=Rebuild"), false, "nothing lacks data");
      assert.equal(await page.locator("text=Replace…").locator("visible=true").count(), 0);
      promises.lost = 2;
      const lost = page.locator(".member[data-amiss]");
      await lost.waitFor();
      const words = (await lost.textContent()) ?? "";
      assert.match(words, /Disk 2Missing.*member 2 is not at/s);
      assert.equal(await lost.locator("text=/ms of|Slack/").first().isVisible(), false, "it does nothing");
      assert.match((await page.textContent(".tally")) ?? "", /1 of 5 disks not in use/);
      assert.match((await page.textContent(".repair")) ?? "", /Disk 2 cannot be used: give it a replacement/);
      assert.equal(await page.isVisible(".job-buttons >> text=Rebuild"), false, "there is no disk to fill");
      await lost.scrollIntoViewIfNeeded();
      await shot(`dashboard-disk-lost-${window}`);

      await lost.locator("text=Replace…").click();
      await page.fill("dialog input", "sdx");
      await shot(`dashboard-replace-${window}`);
      await page.keyboard.press("Enter");
      await page.waitForSelector("dialog .share-error:visible");
      assert.match((await page.textContent("dialog .share-error")) ?? "", /not an absolute path/);
      await page.fill("dialog input", "/dev/sdx");
      await page.click("dialog .button.primary");
      // The list also has the ended ones of other tests.
      await page.waitForSelector('.job[data-state="running"] >> text=/Replace member 2: .dev.sdx/');
      await page.waitForSelector("dialog", { state: "detached" });
      assert.ok(await lost.locator("text=Replace…").isDisabled(), "one at a time");
      await page.click(".job >> text=Cancel");
      promises.lostState = "stale";
      await page.waitForSelector(".job-buttons >> text=Rebuild");
      assert.match((await page.textContent(".repair")) ?? "", /Disk 2 lacks data: rebuild/);
      Object.assign(promises, { lost: undefined, lostState: "missing" });
      await close();
    },
  );
}

for (const scheme of ["dark", "light"] as const) {
  test(
    `the mark of a healthy disk is green, and that of a missing one is not (${scheme})`,
    brokenOnPurpose,
    async () => {
      const promises = stage.mock?.promises;
      assert.ok(promises);
      Object.assign(promises, { lost: undefined });
      const { page, calm, close } = await stage.open("/dashboard", { scheme });
      await page.waitForSelector(".member");
      const marks = () =>
        page.evaluate(() => {
          const coloured = (name: string) => {
            const probe = document.createElement("i");
            probe.style.color = `var(${name})`;
            document.body.append(probe);
            const { color } = getComputedStyle(probe);
            probe.remove();
            return color;
          };
          const names = new Map(["--good", "--accent", "--danger"].map((name) => [coloured(name), name]));
          return [...document.querySelectorAll(".member .state")].map((state) => {
            const { backgroundColor } = getComputedStyle(state, "::before");
            return [state.textContent, names.get(backgroundColor) ?? backgroundColor];
          });
        });
      assert.deepEqual(await marks(), Array(5).fill(["Healthy", "--good"]));
      promises.lost = 2;
      await page.waitForSelector(".member[data-amiss]");
      assert.deepEqual((await marks())[2], ["Missing", "--danger"]);
      promises.lost = undefined;
      calm();
      await close();
    },
  );
}

test(
  "a late request has a time and a class, and is no fault any more after a while",
  brokenOnPurpose,
  async () => {
    const promises = stage.mock?.promises;
    assert.ok(promises);
    Object.assign(promises, { lost: undefined, lateAgo_s: 30 });
    const { page, close } = await stage.open("/dashboard");
    const late = page.locator(".member-facts > div", { hasText: "Late" }).first();
    await late.waitFor();
    assert.equal(await late.textContent(), "Late1 request, last 30 s ago (periodic)");
    assert.ok((await late.getAttribute("data-amiss")) !== null);
    promises.lateAgo_s = 4000;
    await page.waitForFunction(() => document.querySelector(".member-facts [data-amiss]") === null);
    assert.equal(await late.textContent(), "Late1 request, last 1 h ago (periodic)");
    promises.lateAgo_s = undefined;
    await close();
  },
);

test(
  "late data is shown with its viewer, and is no fault any more after a while",
  brokenOnPurpose,
  async () => {
    const promises = stage.mock?.promises;
    assert.ok(promises);
    const { page, shot, calm, close } = await stage.open("/dashboard", { window: "phone" });
    const panel = page.locator(".panel", { hasText: "No data was late for a viewer" });
    await panel.waitFor();
    promises.lateAgo_s = 30;
    const late = page.locator(".late-viewers li");
    await late.waitFor();
    assert.equal(
      await late.textContent(),
      "Harbour lights120 ms late, 3 units, 30 s ago · 192.168.1.20 · 7c01… · periodic",
    );
    assert.ok((await late.getAttribute("data-amiss")) !== null);
    assert.equal(await page.locator(".classes [data-amiss]").count(), 1, "its class");
    await late.scrollIntoViewIfNeeded();
    await shot("dashboard-late");
    promises.lateAgo_s = 4000;
    await page.waitForFunction(() => document.querySelector(".late-viewers [data-amiss]") === null);
    assert.match((await late.textContent()) ?? "", /1 h ago/);
    assert.equal(await page.locator(".classes [data-amiss]").count(), 0, "nor is its class");
    promises.lateAgo_s = undefined;
    calm();
    await close();
  },
);

test("the dashboard says why nothing is written to the volume", async () => {
  const reason = "it was taken over by process 7 on host attic, and nothing more is written here";
  const { page, calm, close } = await stage.open("/dashboard", {
    prepare: (page) =>
      page.route("**/api/v1/dashboard", async (route) => {
        const response = await route.fetch();
        const dashboard = (await response.json()) as Dashboard;
        const volume = { ...dashboard.volume, writable: false, read_only: reason };
        return route.fulfill({ response, json: { ...dashboard, volume } });
      }),
  });
  await page.waitForSelector(".dashboard .notice:visible");
  const notices = (await page.locator(".notice:visible").allTextContents()).join();
  assert.match(notices, /Nothing is written to the volume.*taken over by process 7 on host attic/s);
  calm();
  await close();
});

test("paused sessions are folded, and sessions are found by what they have", async () => {
  const titles = await stage.titles();
  const { page, shot, calm, close } = await stage.open("/dashboard", {
    prepare: (page) =>
      page.route("**/api/v1/dashboard", async (route) => {
        const response = await route.fetch();
        const dashboard = (await response.json()) as Dashboard;
        const sessions = Array.from({ length: 172 }, (_, i) => ({
          key_hint: `k${String(i).padStart(3, "0")}`,
          title: titles[i % titles.length]?.id ?? "",
          client: `192.168.7.${i}`,
          class: "periodic",
          rate_bps: 1_700_000,
          state: i < 3 ? ("playing" as const) : ("paused" as const),
          reserved: i < 3,
          position_s: 61,
          sent_bytes: 43_000_000,
          age_s: 64,
        }));
        return route.fulfill({ response, json: { ...dashboard, sessions, sessions_total: 172 } });
      }),
  });
  await page.waitForSelector(".sessions tbody tr");
  const visible = page.locator(".sessions tbody tr:visible");
  assert.equal(await visible.count(), 3);
  await page.click("text=169 sessions paused");
  await until(async () => (await visible.count()) === 172, "all are shown");
  await page.fill(".session-filter", "192.168.7.99");
  await until(async () => (await visible.count()) === 1, "one is found");
  assert.match((await visible.textContent()) ?? "", /k099/);
  await shot("dashboard-sessions");
  await page.fill(".session-filter", "nobody");
  await page.waitForSelector("text=No session is like that.");
  calm();
  await close();
});

test("the dashboard counts casts when there are some", brokenOnPurpose, async () => {
  const promises = stage.mock?.promises;
  assert.ok(promises);
  const { page, shot, calm, close } = await stage.open("/dashboard");
  await page.waitForSelector(".member");
  assert.equal(await page.isVisible(".casts-words"), false);
  promises.casts = { on_air: 2, waiting: 1, rate_bps: 30_000_000, late_packets: 12, lost_packets: 0 };
  await page.waitForSelector("text=2 casts on the air, 30 Mb/s with FEC");
  assert.equal(await page.textContent(".casts-amiss"), "1 cast waiting for room, 12 packets late");
  await shot("dashboard-casts");
  await page.click(".casts-words");
  await page.waitForSelector("text=Nothing is cast");
  promises.casts = { on_air: 0, waiting: 0, rate_bps: 0, late_packets: 0, lost_packets: 0 };
  calm();
  await close();
});
