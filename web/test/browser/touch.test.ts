/** Pages in a hand. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { cast } from "../mock/casts.ts";
import { pickFilm, useStage } from "./harness.ts";

const stage = useStage();

/** The width and height of what is touched. */
const LEAST_PX = 44;

for (const [path, ready] of [
  ["/", ".card .card-more"],
  ["/dashboard", ".member"],
  ["/casts", ".cast"],
  ["/title/", ".details"],
] as const) {
  test(`what is touched on ${path} is large enough, and the page is no wider than the window`, async (t) => {
    if (path === "/casts" && !stage.mock) return t.skip("the casts are those of the mock");
    const film = await pickFilm(stage);
    stage.mock?.casts.casts.splice(0, 1, cast(film, {}));
    const { page, close } = await stage.open(path === "/title/" ? path + film.id : path, { window: "phone" });
    await page.locator(ready).first().waitFor();
    for (const summary of await page.locator(".cast summary").all())
      if (await summary.isVisible()) await summary.click();
    const small = await page.evaluate(
      (least) =>
        [...document.querySelectorAll("button, a, input:not(.hidden-input), select, summary")]
          .filter((element) => element.checkVisibility())
          .filter((element) => {
            const { width, height } = element.getBoundingClientRect();
            return width > 0 && (width < least - 0.5 || height < least - 0.5);
          })
          .map(
            (element) => `${element.className || element.tagName} ${element.getBoundingClientRect().height}`,
          ),
      LEAST_PX,
    );
    assert.deepEqual(small, []);
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll("button, a, input, select")]
        .filter((element) => element.checkVisibility())
        .filter(
          (element) => !(element.getAttribute("aria-label") || (element as HTMLElement).innerText?.trim()),
        )
        .filter((element) => !element.closest("label"))
        .map((element) => element.className),
    );
    assert.deepEqual(nameless, [], "everything has a name");
    // Its words are hidden on a narrow window.
    if (path === "/") assert.equal(await page.getByRole("button", { name: "Add film" }).count(), 1);
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.ok(overflow <= 0, `the page is ${overflow} px wider than the window`);
    await close();
  });
}
