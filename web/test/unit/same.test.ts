import assert from "node:assert/strict";
import { test } from "node:test";
import { same } from "../../src/library/same.ts";

test("values from JSON are the same if every field is", () => {
  const title = { id: "a", bytes: 7, video: [{ track: 0 }], problem: null };
  assert.ok(same(title, structuredClone(title)));
  for (const other of [
    { ...title, bytes: 8 },
    { ...title, video: [] },
    { ...title, video: [{ track: 1 }] },
    { ...title, more: 1 },
    { id: "a", bytes: 7, video: [{ track: 0 }] },
    undefined,
    "a",
  ])
    assert.equal(same(title, other), false, JSON.stringify(other));
});
