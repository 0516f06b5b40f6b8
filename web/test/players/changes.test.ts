/**
 * Plays every title of the server that REEL_URL names in Chromium, with hls.js, dash.js, Shaka
 * (both forms) and the page of Reel, from the beginning to the end. The titles change their decoder
 * configuration on the way; the player must pass each change without an error, a stop or a gap.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { players, playOnPage, playWith, type Seen, server } from "./players.ts";

/** Players join ranges of the buffer that are nearer than this. */
const GAP_S = 0.15;
/** Sound is decoded at most so long before it is heard. */
const AHEAD_S = 2.5;
/** Of a film with as much sound before a gap as behind it, as a part of its bytes. */
const SOUND_BEFORE_MIDDLE = 0.6;

function check(id: string, seen: Seen) {
  const said = JSON.stringify(seen);
  assert.deepEqual(seen.errors, [], said);
  assert.ok(seen.ended && seen.time > seen.duration - 0.5, `stopped: ${said}`);
  for (const [i, [start]] of seen.buffered.entries()) {
    const before = seen.buffered[i - 1]?.[1];
    assert.ok(before === undefined || start - before < GAP_S, `a gap: ${said}`);
  }
  for (const [time, bytes] of seen.sound) {
    const later = seen.sound.find(([other]) => other >= time + AHEAD_S);
    assert.ok(later === undefined || later[1] > bytes, `no sound after ${time} s: ${said}`);
  }
  if (id.startsWith("gap-of-sound")) {
    const [, before] = seen.sound.find(([time]) => time > seen.duration / 2) ?? [0, Number.NaN];
    const [, all] = seen.sound.at(-1) ?? [0, 0];
    assert.ok(before < all * SOUND_BEFORE_MIDDLE, `sound from behind the gap is early: ${said}`);
  }
  if (id.startsWith("size")) assert.ok(new Set(seen.widths).size > 1, `one size: ${said}`);
}

test("titles that change on the way are played to their ends", { timeout: 30 * 60_000 }, async (t) => {
  const answer = (await (await fetch(`${server}/api/v1/titles`)).json()) as { titles: { id: string }[] };
  assert.ok(answer.titles.length > 0);
  for (const { id } of answer.titles) {
    const runs = Object.entries(players).map(([name, player]) => ({ name, run: playWith(player, id) }));
    runs.push({ name: "the page", run: playOnPage(id) });
    for (const { name, run } of runs) {
      await t.test(`${id} with ${name}`, async () => check(id, await run));
    }
  }
});
