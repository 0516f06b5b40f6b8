import assert from "node:assert/strict";
import { test } from "node:test";
import { select } from "../../src/library/filter.ts";
import { initials } from "../../src/library/poster.ts";
import { mockTitles } from "../mock/titles.ts";

const titles = mockTitles();
const ids = (query: string, order: Parameters<typeof select>[2] = "name") =>
  select(titles, query, order).map((title) => title.id);

test("every word must be found, accents and case aside", () => {
  assert.deepEqual(ids("CAFE place"), ["cafe-sur-la-place"]);
  assert.deepEqual(ids("uber"), ["ueber-den-fluss"]);
  assert.deepEqual(ids("place football"), []);
  assert.equal(ids("   ").length, titles.length);
});

test("letters without an accent of their own are found as people type them", () => {
  const [title] = titles;
  assert.ok(title !== undefined);
  const named = (name: string) => [{ ...title, id: "t", name }];
  for (const [name, query] of [
    ["Bjørn på Ærø", "bjorn pa aero"],
    ["Łódź, Đorđe", "lodz dorde"],
    ["Die große Straße", "grosse STRASSE"],
    ["می\u200cروم", "میروم"],
    ["Bjørn", "bjørn"],
  ] as const)
    assert.equal(select(named(name), query, "name").length, 1, name);
});

test("sizes, codecs and languages are searched too", () => {
  assert.deepEqual(ids("4k"), ["the-long-way-north"]);
  assert.deepEqual(ids("av1"), ["tide"]);
  assert.ok(ids("swedish").includes("the-long-way-north"));
});

test("orders", () => {
  assert.equal(ids("", "added")[0], "harbour-lights");
  assert.equal(ids("", "longest")[0], "sunday-football-final");
  assert.equal(ids("", "largest")[0], "the-long-way-north");
  const byName = ids("", "name");
  assert.equal(byName[0], "cafe-sur-la-place");
  assert.equal(byName.at(-1), "ueber-den-fluss");
});

test("the list that came is not reordered", () => {
  const before = titles.map((title) => title.id);
  select(titles, "", "name");
  assert.deepEqual(
    titles.map((title) => title.id),
    before,
  );
});

test("initials for a card", () => {
  assert.equal(initials("The long way north"), "LW");
  assert.equal(initials("Tide"), "T");
  assert.equal(initials("über den Fluss"), "ÜD");
  assert.equal(initials("  "), "?");
  assert.equal(initials("🎬"), "🎬");
});
