/** Files that are sent together, sent again, and titles that get another name. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { results } from "../places.ts";
import { until, useStage } from "./harness.ts";

const stage = useStage();
const large = join(results, "wide 360p.mp4");
const small = join(results, "wide 180p.mp4");
const srt = "1\n00:00:01,000 --> 00:00:02,000\nHello\n";
const ass = "[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,Hallo\n";

before(() => {
  const of = "-f lavfi -i testsrc2=size=640x360:rate=25:duration=4 -f lavfi -i sine=440:duration=4";
  const codecs = "-c:v libx264 -threads 1 -g 50 -keyint_min 50 -sc_threshold 0 -c:a aac".split(" ");
  const make = (path: string, scale: string) =>
    execFileSync("ffmpeg", [
      "-nostdin",
      "-v",
      "error",
      "-y",
      ...of.split(" "),
      "-vf",
      scale,
      ...codecs,
      path,
    ]);
  make(large, "scale=640:360");
  make(small, "scale=320:180");
});

const ids = new Set<string>();
after(async () => {
  if (stage.mock) return;
  for (const id of ids) await fetch(`${stage.url}/api/v1/titles/${id}`, { method: "DELETE" });
});

const file = (name: string, content: string | Buffer) => ({
  name,
  mimeType: "application/octet-stream",
  buffer: Buffer.from(content),
});

async function send(
  page: Page,
  ...files: { name: string; mimeType: string; buffer: Buffer }[]
): Promise<void> {
  await page.waitForSelector(".library-content > *");
  await page.setInputFiles("input[type=file]", files);
}

/** The title of this name, when it is there. */
async function stored(name: string) {
  let found: Awaited<ReturnType<typeof stage.titles>>[number] | undefined;
  await until(async () => {
    found = (await stage.titles()).find((title) => title.name === name);
    return found !== undefined;
  }, `${name} is a title`);
  assert.ok(found);
  ids.add(found.id);
  return found;
}

test("subtitles are sent with their film, and alone they are refused in words", async () => {
  const { page, shot, calm, close } = await stage.open("/");
  const film = readFileSync(large);
  await send(
    page,
    file("one.mp4", film),
    file("one.en.srt", srt),
    file("one.de.ass", ass),
    file("two.srt", srt),
  );
  await page.waitForSelector('.tray-item[data-state="done"]');
  const title = await stored("one");
  assert.equal(title.subtitles.length, 2);
  assert.deepEqual(title.source, { name: "one.mp4", bytes: film.length });
  const refused = (await page.textContent('.tray-item[data-state="failed"]')) ?? "";
  assert.match(refused, /two\.srt.*Subtitles without their film.*together/s);
  await shot("upload-subtitles");
  calm();
  await close();
});

test("two sizes of one film become one title if that is wanted", async () => {
  const { page, shot, calm, close } = await stage.open("/");
  const both = [file("wide 180p.mp4", readFileSync(small)), file("wide 360p.mp4", readFileSync(large))];
  await send(page, ...both);
  await page.waitForSelector("dialog[open]");
  assert.match(
    (await page.textContent("dialog")) ?? "",
    /one film in 2 sizes.*wide 360p\.mp4, wide 180p\.mp4/s,
  );
  await shot("upload-renditions");
  await page.getByRole("button", { name: "Cancel" }).last().click();
  await send(page, ...both);
  await page.getByRole("button", { name: "One title" }).click();
  await page.waitForSelector('.tray-item[data-state="done"]');
  const title = await stored("wide");
  assert.equal(title.video.length, 2);
  assert.equal((await stage.titles()).filter(({ name }) => name.startsWith("wide")).length, 1);
  calm();
  await close();
});

test("a file that is a title already is said to be, and can replace it", async () => {
  const { page, shot, calm, close } = await stage.open("/");
  const again = file("again.mp4", readFileSync(small));
  await send(page, again);
  const title = await stored("again");
  await page.waitForSelector('.tray-item[data-state="done"]');

  await send(page, again);
  await page.waitForSelector("dialog[open]");
  assert.match((await page.textContent("dialog")) ?? "", /“again\.mp4” is here already.*title “again”/s);
  await shot("upload-again");
  await page.getByRole("button", { name: "Cancel" }).last().click();
  const tallies = () => page.locator(".tray-item").count();
  assert.equal(await tallies(), 1, "nothing is sent");

  await send(page, again, file("again.en.srt", srt));
  await page.click("dialog .button.primary");
  await until(
    async () => (await page.locator('.tray-item[data-state="done"]').count()) === 2,
    "it is stored",
  );
  const named = (await stage.titles()).filter(({ name }) => name === "again");
  assert.deepEqual(
    named.map(({ id, subtitles }) => [id, subtitles.length]),
    [[title.id, 1]],
  );

  await send(page, again);
  await page.getByRole("button", { name: "Add it again" }).click();
  await until(async () => (await stage.titles()).filter(({ name }) => name === "again").length === 2, "two");
  for (const { id, name } of await stage.titles()) if (name === "again") ids.add(id);
  calm();
  await close();
});

test("a title gets another name, and keeps its address", async () => {
  const { page, shot, calm, close } = await stage.open("/", { window: "phone", expected: /422/ });
  await send(page, file("misnamed.mp4", readFileSync(small)));
  const { id } = await stored("misnamed");
  const card = page.locator(`.card[data-id="${id}"]`);
  await page.click(".tray-item .icon-button");
  await card.locator(".card-more").click();
  await page.click("text=Rename…");
  const field = page.locator("dialog input");
  assert.equal(await field.inputValue(), "misnamed");
  await field.fill("   ");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .share-error:visible");
  await field.fill("Well named");
  await shot("rename");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog", { state: "detached" });
  await until(async () => (await card.locator(".card-name").textContent()) === "Well named", "it is shown");
  assert.equal((await stage.titles()).find((title) => title.id === id)?.name, "Well named");
  calm();
  await close();
});
