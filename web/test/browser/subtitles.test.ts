/** Subtitles are added to a film that is stored. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { begin, openMenu, pickFilm, until, untilPlayed, useStage, type Window, windows } from "./harness.ts";

const stage = useStage();

/** The width and height of what is touched. */
const LEAST_PX = 44;

const file = (name: string, content: string) => ({
  name,
  mimeType: "application/x-subrip",
  buffer: Buffer.from(content),
});

for (const window of Object.keys(windows) as Window[]) {
  for (const scheme of ["dark", "light"] as const) {
    test(`subtitles are added while the film plays, and are shown (${window}, ${scheme})`, async () => {
      const film = await pickFilm(stage);
      const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
        window,
        scheme,
        expected: /answered 422|status of 422/,
      });
      await begin(page);
      const label = `Added ${window} ${scheme}`;
      await page.getByRole("button", { name: "Add subtitles" }).click();
      const dialog = page.getByRole("dialog", { name: "Add subtitles" });
      const action = dialog.getByRole("button", { name: "Add", exact: true });

      await dialog.getByLabel("File").setInputFiles(file("film.fr.srt", "a letter"));
      assert.equal(await dialog.getByLabel("Language").inputValue(), "fr", "as the name says");
      await dialog.getByLabel("Label").fill(label);
      await action.click();
      await dialog.getByRole("alert").waitFor();
      assert.match((await dialog.getByRole("alert").textContent()) ?? "", /film\.fr\.srt: there is no cue/);
      await shot(`subtitles-refused-${window}-${scheme}`);
      if (window === "phone") {
        const wide = await dialog.evaluate((element) => element.scrollWidth - element.clientWidth);
        assert.ok(wide <= 0, `the dialog is cut off by ${wide} px`);
        const sizes = await dialog
          .locator("button, input")
          .evaluateAll((all) => all.map((element) => element.getBoundingClientRect().height));
        assert.ok(Math.min(...sizes) >= LEAST_PX - 0.5, `the dialog has controls of ${sizes.join(", ")} px`);
      }

      const cues = "1\n00:00:00,000 --> 00:01:59,000\nThe words that were added\n";
      await dialog.getByLabel("File").setInputFiles(file("film.fr.srt", cues));
      await action.click();
      await dialog.waitFor({ state: "detached" });
      await page.locator(".details-block", { hasText: label }).waitFor();
      const stored = (await stage.titles()).find((title) => title.id === film.id);
      assert.equal(stored?.subtitles.filter((s) => s.name === label && s.language === "fr").length, 1);

      await untilPlayed(page, 0.3);
      // The whole film is before the viewer again, and the cue lasts as long.
      await page.keyboard.press("Home");
      await openMenu(page, "subtitles");
      const items = page.locator(".menu .menu-item", { hasText: label });
      await until(async () => (await items.count()) === 1, "the menu of subtitles lists them");
      await items.click();
      await page.locator(".cue", { hasText: "The words that were added" }).waitFor();
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
      await shot(`subtitles-added-${window}-${scheme}`);
      calm();
      await close();
    });
  }
}

test("the library offers it too", async () => {
  const film = await pickFilm(stage);
  const { page, calm, close } = await stage.open("/");
  const card = page.locator(`.card[data-id="${film.id}"]`);
  await card.hover();
  await card.locator(".card-more").click();
  await page.locator(".menu-item", { hasText: "Add subtitles" }).click();
  await page.getByRole("dialog", { name: "Add subtitles" }).waitFor();
  calm();
  await close();
});
