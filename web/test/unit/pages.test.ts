import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import type { MemberState, Volume, WatchFile, WatchFileState } from "../../src/api/types.ts";
import { volumeNotice } from "../../src/library/volume.ts";
import { watchedNotice, watchedTrouble } from "../../src/library/watched.ts";
import { wait } from "../../src/ui/dom.ts";

test("waiting leaves nothing behind, and ends with its signal", async () => {
  const life = new AbortController();
  for (let i = 0; i < 3; i += 1) await wait(0, life.signal);
  assert.equal(getEventListeners(life.signal, "abort").length, 0);
  const waiting = wait(3_600_000, life.signal);
  life.abort(new Error("left"));
  await assert.rejects(waiting, /left/);
});

const watched = (state: WatchFileState, warnings: string[] = []): WatchFile => ({
  path: "a.ts",
  bytes: 1,
  state,
  reason: null,
  title_id: null,
  warnings,
});

test("a watched directory is mentioned only if a file of it is no title, or a title with warnings", () => {
  const files = [watched("taken"), watched("ingesting")];
  assert.deepEqual(watchedNotice({ problem: null, files }), []);
  const troubled = [watched("skipped"), watched("waiting"), watched("waiting"), watched("taken", ["a gap"])];
  assert.equal(
    watchedTrouble({ problem: null, files: [...files, ...troubled] })?.words,
    "1 file of the watched directory is no title. 2 files of the watched directory may be incomplete. " +
      "1 file of the watched directory became a title with warnings.",
  );
});

test("a disk that was repaired or moved and is in use is no reason for a notice", () => {
  const states: MemberState[] = ["present", "repaired", "swapped"];
  const members = states.map((state, n) => ({
    member: n,
    path: `/srv/reel/disk${n}/member`,
    state,
    in_use: true,
    activity: "active" as const,
    text: `member ${n} is ${state}`,
  }));
  const volume: Pick<Volume, "state" | "members"> = { state: "ok", members };
  assert.deepEqual(volumeNotice(volume), []);
});
