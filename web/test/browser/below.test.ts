/** The pages below a path of a proxy of which the server knows nothing: all else there is a 404. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { begin, pickFilm, untilPlayed, useStage } from "./harness.ts";

// Against a real Reel, REEL_URL says where it is.
const stage = useStage({ below: "/films/reel" });

test("below a path, links lead to pages below it, which can be loaded again", async () => {
  const film = await pickFilm(stage);
  const { page, calm, close } = await stage.open("/");
  for (const path of ["dashboard", "casts"]) {
    await page.click(`.to-${path}`);
    await page.waitForURL(`${stage.url}/${path}`);
    await page.reload();
    await page.click(".back");
    await page.waitForURL(`${stage.url}/`);
  }
  await page.waitForSelector(".grid:not(.skeleton) .card");
  for (const card of await page.locator(".card").all()) {
    await card.scrollIntoViewIfNeeded();
    await card.locator(".poster > .loaded").waitFor();
  }
  await page.fill("input[type=search]", film.name);
  await page.waitForURL(`${stage.url}/?q=*`);
  await page
    .locator(`.card a[href$="/title/${encodeURIComponent(film.id)}"]`)
    .first()
    .click();
  await page.waitForURL(`${stage.url}/title/*`);
  await begin(page);
  calm();
  await close();
});

for (const via of ["hls", "progressive"]) {
  test(`below a path, the page of a title plays when it is loaded there (${via})`, async () => {
    const film = await pickFilm(stage);
    const { page, calm, close } = await stage.open(`/title/${encodeURIComponent(film.id)}?via=${via}`);
    await begin(page);
    await untilPlayed(page, 1);
    for (const link of await page.locator("a[download]").all()) {
      const href = (await link.evaluate((a: HTMLAnchorElement) => a.href)) ?? "";
      assert.ok(href.startsWith(`${stage.url}/files/`), href);
    }
    for (const field of await page.locator(".address input").all()) {
      const address = await field.inputValue();
      assert.ok(address.startsWith(`${stage.url}/watch/`), address);
    }
    assert.ok((await page.locator(".address input").count()) >= 3, "addresses to copy");
    calm();
    await close();
  });
}

test("below a path, an upload is followed to its title", { skip: process.env.REEL_URL }, async () => {
  const { page, calm, close } = await stage.open("/");
  await page.waitForSelector(".library-content > *");
  const buffer = readFileSync(join(stage.media, "upload.mkv"));
  await page.setInputFiles("input[type=file]", { name: "below.mkv", mimeType: "video/x-matroska", buffer });
  await page.waitForSelector('.tray-item[data-state="done"]');
  const href = await page
    .locator(".tray-item a")
    .first()
    .evaluate((a: HTMLAnchorElement) => a.href);
  assert.ok(href.startsWith(`${stage.url}/title/`), href);
  calm();
  await close();
});
