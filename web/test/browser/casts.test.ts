import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { CastList, Job } from "../../src/api/types.ts";
import { cast } from "../mock/casts.ts";
import { type Opened, until, useStage, type Window, windows } from "./harness.ts";

const stage = useStage();

/** A real server may have no network for groups. */
const ofMock = { skip: process.env.REEL_URL !== undefined && "the casts are those of the mock" };

/** Whether the server is a real one whose network has a route for groups. */
const hasGroups = process.env.REEL_GROUPS !== undefined;

const films = () => stage.mock?.titles ?? [];
const film = (id: string) => {
  const found = films().find((title) => title.id === id);
  assert.ok(found);
  return found;
};

beforeEach(() => {
  if (!stage.mock) return;
  stage.mock.casts.isFull = false;
  stage.mock.casts.casts = [
    cast(film("tide"), {}),
    cast(film("harbour-lights"), {
      name: "lights",
      group: "239.255.2.1:5000",
      duration_s: 5412,
      schedule: {
        scheme: "fast",
        channels: 5,
        segments: 31,
        slot_s: 3,
        wait_s: 6,
        bandwidth_bps: 20_000_000,
        peak_bps: 31_000_000,
      },
    }),
    cast(film("cafe-sur-la-place"), {
      group: "239.255.3.1:5000",
      state: "waiting",
      reason: "the network is fully promised: 5.4 Mb/s are asked for, 2.1 Mb/s are free",
      late_packets: 12,
    }),
    cast(film("grandmother-1987"), {
      group: "239.255.4.1:5000",
      state: "ended",
      reason: "its title was removed",
    }),
  ];
});

async function assertNarrow({ page }: Opened): Promise<void> {
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
}

for (const window of Object.keys(windows) as Window[])
  for (const scheme of ["dark", "light"] as const)
    test(`casts are listed with lines to copy (${window}, ${scheme})`, ofMock, async () => {
      const opened = await stage.open("/", { window, scheme });
      const { page, shot, calm, close } = opened;
      await page.click(".to-casts");
      await page.waitForSelector(".cast");
      assert.equal(await page.title(), "Casts · Reel");
      assert.deepEqual(await page.locator(".cast-stage").allTextContents(), [
        "On the air",
        "On the air",
        "Waiting",
        "Ended",
      ]);
      assert.match((await page.textContent(".tally")) ?? "", /2 of 4 casts on the air · 30 Mb\/s/);
      const tide = page.locator('.cast[data-name="tide"]');
      assert.match((await tide.textContent()) ?? "", /239\.255\.1\.1:5000 · in a loop.*1:35 of 12:22/s);
      assert.equal(await tide.locator("h2 a").getAttribute("href"), "/title/tide");
      await tide.locator("summary", { hasText: "How to receive it" }).click();
      const fields = tide.locator(".address-field");
      assert.equal(await fields.first().inputValue(), `reel receive ${stage.url}/casts/tide.sdp | mpv -`);
      assert.equal(await tide.locator("a[download]").getAttribute("href"), "/casts/tide.sdp");
      await assertNarrow(opened);
      await shot(`casts-${window}-${scheme}`);
      await page.screenshot({
        path: `${process.env.REEL_TEST_OUT ?? "test-results"}/casts-${window}-${scheme}-whole.png`,
        fullPage: true,
        animations: "disabled",
      });
      calm();
      await close();
    });

test("what is unfolded stays so while the list changes", ofMock, async () => {
  const { page, calm, close } = await stage.open("/casts");
  const tide = page.locator('.cast[data-name="tide"]');
  await tide.locator("summary", { hasText: "How to receive it" }).click();
  stage.mock?.casts.casts.unshift(cast(film("ueber-den-fluss"), { name: "first" }));
  await page.waitForSelector('.cast[data-name="first"]');
  assert.ok(await tide.locator(".address-field").first().isVisible());
  assert.equal(
    await page.locator(".address-field:visible").count(),
    await tide.locator(".address-field").count(),
  );
  calm();
  await close();
});

test("a cast is stopped after a question, and one that has ended is removed", ofMock, async () => {
  const { page, shot, calm, close } = await stage.open("/casts");
  const tide = page.locator('.cast[data-name="tide"]');
  await tide.locator("text=Stop…").click();
  await page.waitForSelector("dialog >> text=It ends for all receivers");
  await shot("casts-stop");
  await page.click("dialog >> text=Cancel");
  assert.equal(stage.mock?.casts.casts.length, 4);
  await tide.locator("text=Stop…").click();
  await page.click("dialog .button.danger");
  await tide.waitFor({ state: "detached" });
  await page.click("text=Remove");
  await until(() => stage.mock?.casts.casts.length === 2, "both are gone");
  calm();
  await close();
});

for (const window of Object.keys(windows) as Window[])
  test(`the drawing of a schedule moves (${window})`, ofMock, async () => {
    const opened = await stage.open("/casts", { window, scheme: window === "phone" ? "light" : "dark" });
    const { page, shot, calm, close } = opened;
    const lights = page.locator('.cast[data-name="lights"]');
    await lights.scrollIntoViewIfNeeded();
    await lights.locator(".slots-cell").first().waitFor();
    assert.equal(await page.locator(".cast-schedule:visible").count(), 1, "others have no schedule");
    const strip = lights.locator(".slots-strip");
    const at = async () => (await strip.getAttribute("transform")) ?? "";
    const then = await at();
    await until(async () => (await at()) !== then, "it moves");
    const label = async () => (await lights.locator(".slots-picture").getAttribute("aria-label")) ?? "";
    const before = await label();
    assert.match(
      before,
      /^Slot \d+ of the schedule: channel 1 sends segment 1, channel 2 sends segment [23],/,
    );
    assert.match(before, /joins now receives from slot \d+ until slot \d+, and plays from/);
    await until(async () => (await label()) !== before, "the next slot is told");
    const played = lights.locator(".slots-labels span").last();
    assert.equal(await played.textContent(), "played");
    // Every slot has one segment of the client: it receives all of channel 1 once.
    assert.ok((await lights.locator(".slots-cell.of-client").count()) > 8);
    await assertNarrow(opened);
    await lights.scrollIntoViewIfNeeded();
    await shot(`casts-schedule-${window}`);
    await lights.locator("summary", { hasText: "Schedule" }).click();
    calm();
    await close();
  });

test("a schedule goes from slot to slot where motion is not wanted", ofMock, async () => {
  const { page, calm, close } = await stage.open("/casts", {
    prepare: async (page) => {
      await page.emulateMedia({ reducedMotion: "reduce" });
      await page.clock.install();
    },
  });
  const strip = page.locator('.cast[data-name="lights"] .slots-strip');
  await strip.locator(".slots-cell").first().waitFor();
  let told = 0;
  page.on("response", (response) => {
    if (response.url().includes("/schedule")) told += 1;
  });
  // Every place that the strip is given; the schedule is asked for once in each slot.
  const places = await strip.evaluateHandle((strip) => {
    const places: string[] = [];
    const keep = () => places.push(strip.getAttribute("transform") ?? "");
    new MutationObserver(keep).observe(strip, { attributes: true, attributeFilter: ["transform"] });
    return places;
  });
  await until(() => told >= 2, "the schedule is told again");
  await page.clock.runFor(1000);
  const seen = await places.jsonValue();
  assert.ok(seen.length >= 1, "it moves");
  assert.ok(seen.length <= told, `${seen.length} moves in ${told} slots: ${seen.join()}`);
  calm();
  await close();
});

for (const window of Object.keys(windows) as Window[])
  test(`a cast is added with a plan of what it costs (${window})`, ofMock, async () => {
    const opened = await stage.open("/casts", { window, scheme: window === "phone" ? "light" : "dark" });
    const { page, shot, calm, close } = opened;
    await page.click(".add-cast");
    await page.waitForSelector("dialog >> text=One group takes 5 Mb/s with FEC.");
    assert.equal(await page.inputValue("[aria-label=Film]"), "tide", "what can be cast comes first");
    assert.equal(await page.inputValue("[aria-label='Group and port']"), "239.255.4.1:5000");
    await page.click("text=By a schedule to several groups");
    await page.waitForSelector(".cast-plans tbody tr");
    const rows = await page.locator(".cast-plans tbody tr").allTextContents();
    assert.match(rows[0] ?? "", /staggered.*at most 64.*240.*1\.2 Gb\/s.*30 s/);
    assert.equal(await page.inputValue(".cast-plans input:checked"), "rfs");
    await assertNarrow(opened);
    await shot(`casts-add-${window}`);
    await page.check(".cast-plans input[value=fast]");
    await page.fill("[aria-label=Name]", "evening");
    await page.fill("[aria-label=Limit]", "20");
    await page.waitForSelector(".cast-plans >> text=20 s");
    await page.click("dialog .button.primary");
    await page.waitForSelector('.cast[data-name="evening"]');
    const added = stage.mock?.casts.casts.find(({ name }) => name === "evening");
    assert.deepEqual(
      [added?.schedule?.scheme, added?.schedule?.wait_s, added?.group],
      ["fast", 20, "239.255.4.1:5000"],
    );
    calm();
    await close();
  });

if (hasGroups)
  test("a cast of the real server is begun, seen on the air and stopped", async () => {
    const { page, shot, calm, close } = await stage.open("/casts");
    await page.click(".add-cast");
    await page.waitForSelector("dialog >> text=One group takes");
    assert.equal(await page.inputValue("[aria-label='Group and port']"), "239.255.1.1:5000");
    await page.fill("[aria-label=Name]", "evening");
    await page.click("dialog .button.primary");
    const card = page.locator('.cast[data-name="evening"][data-state="on-air"]');
    await card.waitFor();
    const sent = () => card.locator("dt:text('Packets sent') + dd").textContent();
    await until(async () => Number((await sent())?.replaceAll(",", "")) > 100, "packets are sent");
    await card.locator("text=How to receive it").click();
    const lines = await card
      .locator(".address-field:visible")
      .evaluateAll((fields) =>
        fields.map((field) => (field instanceof HTMLInputElement ? field.value : (field.textContent ?? ""))),
      );
    assert.ok(lines.includes(`reel receive ${stage.url}/casts/evening.sdp | mpv -`), lines.join("\n"));
    const description = await (await fetch(`${stage.url}/casts/evening.sdp`)).text();
    assert.match(description, /\r\nc=IN IP4 239\.255\.1\.1\/1\r\n/);
    await shot("casts-real");
    await card.locator("text=Stop…").click();
    await page.click("dialog .button.danger");
    await page.locator('.cast[data-name="evening"]').waitFor({ state: "detached" });
    const listed = (await (await fetch(`${stage.url}/api/v1/casts`)).json()) as CastList;
    assert.deepEqual(listed.casts, []);
    calm();
    await close();
  });

test("a refusal is shown with its reason and what could be granted", ofMock, async () => {
  const { page, shot, close } = await stage.open("/casts", { expected: /503/ });
  assert.ok(stage.mock);
  stage.mock.casts.isFull = true;
  await page.click(".add-cast");
  await page.click("dialog .button.primary");
  const error = page.locator("dialog .share-error");
  await error.waitFor();
  assert.equal(
    await error.textContent(),
    "The network is fully promised: 5.4 Mb/s are asked for, 2.1 Mb/s are free. A stream of up to 2.1 Mb/s could be granted now.",
  );
  await shot("casts-refused");
  stage.mock.casts.isFull = false;
  await page.click("dialog .button.primary");
  await page.waitForSelector("dialog", { state: "detached" });
  await close();
});

test("a film without a transport stream is given one", ofMock, async () => {
  let hold = true;
  const { page, shot, calm, close } = await stage.open("/title/ueber-den-fluss", {
    expected: /./,
    // The job is over when its progress was seen, and no sooner.
    prepare: (page) =>
      page.route("**/api/v1/jobs/*", async (route) => {
        const response = await route.fetch();
        const job = (await response.json()) as Job;
        return route.fulfill({ response, json: hold ? { ...job, state: "ingesting" } : job });
      }),
  });
  await page.click(".details-actions >> text=Cast…");
  await page.waitForSelector("dialog >> text=and this film has none yet");
  await page.waitForSelector("dialog >> text=The title has no form ts");
  await shot("casts-no-stream");
  await page.click("text=Make a transport stream");
  await page.waitForSelector("dialog progress:visible");
  hold = false;
  await page.waitForSelector(".cast-offer", { state: "hidden" });
  await page.click("dialog .button.primary");
  await page.waitForSelector("text=The cast begins");
  assert.ok(stage.mock?.casts.casts.some(({ title }) => title === "ueber-den-fluss"));
  calm();
  await close();
});

test("films follow each other in one group", ofMock, async () => {
  film("harbour-lights").forms.push({ form: "ts", bytes: 1, average_bps: 4_000_000 });
  const { page, shot, calm, close } = await stage.open("/casts");
  await page.click(".add-cast");
  await page.selectOption("[aria-label=Film]", "tide");
  const more = page.locator("[aria-label='Film that follows']");
  const offered = await more.locator("option").allTextContents();
  assert.ok(!offered.includes(film("cafe-sur-la-place").name), "it has no transport stream");
  for (const id of ["harbour-lights", "tide", "harbour-lights"]) await more.selectOption(id);
  await page.locator(".cast-followers button").nth(1).click();
  assert.deepEqual(await page.locator(".cast-followers span").allTextContents(), [
    film("harbour-lights").name,
    film("harbour-lights").name,
  ]);
  await page.fill("[aria-label=Name]", "list");
  await shot("casts-followers");
  await page.click("dialog .button.primary");
  const card = page.locator('.cast[data-name="list"]');
  await card.waitFor();
  const added = stage.mock?.casts.casts.find(({ name }) => name === "list");
  assert.deepEqual(added?.playlist, ["tide", "harbour-lights", "harbour-lights"]);
  assert.match((await card.textContent()) ?? "", /3 films in a loop.*0:00 of 12:22, then Harbour lights/s);
  calm();
  await close();
});
