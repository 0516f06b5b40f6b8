import assert from "node:assert/strict";
import { test } from "node:test";
import { filesOf, joined, planOf, renditions } from "../../src/upload/plan.ts";

const files = (...names: string[]) => names.map((name, i) => ({ name, size: i + 1 }));

test("subtitles go with the film whose name they have", () => {
  const { uploads, strays } = planOf(
    files(
      "film.en.srt",
      "film.mp4",
      "film.2.srt",
      "film.2.mkv",
      "film 3.vtt",
      "FILM.ASS",
      "film.de.forced.ASS",
    ),
  );
  assert.deepEqual(
    uploads.map((upload) => filesOf(upload).map(({ name }) => name)),
    [
      ["film.mp4", "film.en.srt", "film.de.forced.ASS"],
      ["film.2.mkv", "film.2.srt"],
    ],
  );
  assert.deepEqual(
    strays.map(({ name }) => name),
    ["film 3.vtt", "FILM.ASS"],
  );
});

test("files whose names differ by a size are renditions, the largest first", () => {
  const groups = (...names: string[]) =>
    renditions(planOf(files(...names)).uploads).map((group) => group.map(({ name }) => name));
  assert.deepEqual(groups("film-720p.mp4", "other.mp4", "film-1080p.mp4", "Film-480.mkv"), [
    ["film-1080p", "film-720p", "Film-480"],
  ]);
  assert.deepEqual(groups("a [1920x1080].mp4", "a [640x360].mp4", "b 4k.mp4", "b 1080p.mp4"), [
    ["a [1920x1080]", "a [640x360]"],
    ["b 4k", "b 1080p"],
  ]);
  assert.deepEqual(groups("film 1.mp4", "film 2.mp4", "1917.mp4", "film 720p.mp4"), []);
  assert.deepEqual(groups("film 720p.mp4", "film.720p.mkv"), [], "two of one size are two films");
});

test("renditions become one upload with all their subtitles", () => {
  const [group] = renditions(planOf(files("film 720p.mp4", "film 1080p.mp4", "film 720p.en.srt")).uploads);
  assert.ok(group);
  const one = joined(group);
  assert.equal(one.name, "film");
  assert.deepEqual(
    filesOf(one).map(({ name }) => name),
    ["film 1080p.mp4", "film 720p.mp4", "film 720p.en.srt"],
  );
});
