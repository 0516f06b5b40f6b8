import assert from "node:assert/strict";
import { test } from "node:test";
import { addressed, below } from "../../src/root.ts";

test("addresses of the API are below the path of the pages, and are put there once", () => {
  assert.equal(below("dashboard", "/"), "/dashboard");
  assert.equal(below("/api/v1", "/films/reel/"), "/films/reel/api/v1");
  assert.equal(addressed("/s/k/master.m3u8", "/"), "/s/k/master.m3u8");
  assert.equal(addressed("/s/k/master.m3u8", "/reel/"), "/reel/s/k/master.m3u8");
  assert.equal(addressed("/reel/s/k/master.m3u8", "/reel/"), "/reel/s/k/master.m3u8");
  assert.equal(addressed("/reels/a", "/reel/"), "/reel/reels/a");
});
