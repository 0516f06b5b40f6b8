/**
 * Plays titles with odd timelines in Chromium, with hls.js, dash.js, Shaka (both forms), the
 * element alone (progressive) and the page of Reel. Each picture of them has its number as a row of
 * bars: the right picture must be shown at the right time, from the first to the last, without a
 * jump.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Player, players, playOnPage, playWith, type Seen, server } from "./players.ts";

const RATE = 25;
/** Reading the pictures takes a processor, and late pictures are not shown. */
const SIDE_BY_SIDE = 2;
/** Players may show a picture a little earlier or later than its time says. */
const TOLERANCE = 2;
/** So near to the end nothing is left to be shown. */
const END_S = 0.05;
/**
 * Pictures before zero have this time together, because browsers drop them if they have negative
 * times. One of them is seen until playing begins.
 */
const HIDDEN_S = 0.01;

/** A title: its length, and the number of the picture that belongs to a time. */
interface Film {
  length_s: number;
  at: (time_s: number) => number;
  /** Whether it has pictures before zero. */
  hidden?: boolean;
  /** Numbers of which some must be seen: on both sides of what is odd. */
  parts: [number, number][];
}

const whole = (time_s: number) => time_s * RATE;
const films: Record<string, Film> = {
  /** An edit list begins a second after the only key frame. */
  trimmed: {
    length_s: 7,
    hidden: true,
    at: (time_s) => RATE + whole(time_s),
    parts: [
      [25, 60],
      [150, 199],
    ],
  },
  /** The same after 1250 pictures; the bars count to 1023. */
  far: {
    length_s: 6,
    hidden: true,
    at: (time_s) => 226 + whole(time_s),
    parts: [
      [226, 260],
      [340, 375],
    ],
  },
  /** The 50th picture stays for three seconds. */
  gap: {
    length_s: 7,
    at: (time_s) => (time_s < 5 ? Math.min(whole(time_s), 49) : whole(time_s - 3)),
    parts: [
      [0, 48],
      [50, 99],
    ],
  },
  /** The pictures begin after a second, and the sound ends three seconds before them. */
  late: {
    length_s: 6,
    at: (time_s) => (time_s < 1 ? 0 : whole(time_s - 1)),
    parts: [
      [0, 0],
      [1, 40],
      [90, 124],
    ],
  },
  /** The sound begins after two seconds, and the pictures end forty seconds before it. */
  early: {
    length_s: 43.04,
    at: (time_s) => Math.min(whole(time_s), 75),
    parts: [
      [0, 40],
      [75, 75],
    ],
  },
  /** The 50th picture, before a key frame, stays for thirty seconds. */
  pause: {
    length_s: 34,
    at: (time_s) => (time_s < 32 ? Math.min(whole(time_s), 49) : whole(time_s - 30)),
    parts: [
      [0, 48],
      [50, 99],
    ],
  },
  /** Two transport streams: the second one begins half a second before the end of the first. */
  over: {
    length_s: 8,
    at: whole,
    parts: [
      [0, 99],
      [100, 199],
    ],
  },
  /** A film of segments whose counters begin again. */
  joined: {
    length_s: 8,
    at: whole,
    parts: [
      [0, 49],
      [50, 99],
      [150, 199],
    ],
  },
};

/** Reads the number of each picture that is shown: ten bars, the lowest bit first. */
function readPictures(video: HTMLVideoElement) {
  const pictures: [number, number][] = [];
  window.pictures = pictures;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const read = (_: number, { mediaTime, width, height }: VideoFrameCallbackMetadata) => {
    Object.assign(canvas, { width, height });
    context?.drawImage(video, 0, 0);
    const row = context?.getImageData(0, height / 2, width, 1).data ?? [];
    const bit = (n: number) => ((row[4 * Math.floor(((n + 0.5) * width) / 10)] ?? 0) > 128 ? 1 : 0);
    pictures.push([mediaTime, Array.from({ length: 10 }, (_, n) => bit(n) << n).reduce((a, b) => a + b)]);
    video.requestVideoFrameCallback(read);
  };
  video.requestVideoFrameCallback(read);
}

const file: Player = {
  form: "ID.mp4",
  begin: (url) => {
    window.video.src = url;
  },
};

function check({ length_s, at, parts, hidden }: Film, seen: Seen, fromTheFirst: boolean) {
  const said = JSON.stringify({ ...seen, sound: [] });
  assert.deepEqual(seen.errors, [], said);
  assert.ok(seen.ended && seen.time > seen.duration - 0.2, `stopped: ${said}`);
  assert.ok(Math.abs(seen.duration - length_s) < 0.15, `not of ${length_s} s: ${said}`);
  // dash.js goes to the end itself if the clock stops a moment before it.
  const jumps = seen.jumps.filter((to_s) => to_s < seen.duration - END_S);
  assert.deepEqual(jumps, [], `jumped: ${said}`);
  assert.equal(seen.buffered.length, 1, `a gap: ${said}`);
  const pictures = seen.pictures.filter(([time_s]) => !hidden || time_s > HIDDEN_S);
  const wrong = pictures.filter(([time_s, number], i) => {
    // On a busy machine a picture is read later than its time says, and others were shown since.
    const read_by_s = pictures[i + 1]?.[0] ?? length_s;
    return number < at(time_s) - TOLERANCE || number > Math.max(at(time_s) + TOLERANCE, at(read_by_s));
  });
  assert.deepEqual(wrong, [], `other pictures: ${said}`);
  const numbers = pictures.map(([, number]) => number);
  assert.ok(
    numbers.every((number, i) => i === 0 || number >= (numbers[i - 1] ?? 0)),
    `out of order: ${said}`,
  );
  if (fromTheFirst) assert.ok((numbers[0] ?? -1) >= Math.round(at(0)), `shown before the first: ${said}`);
  for (const [from, to] of parts) {
    assert.ok(
      numbers.some((number) => number >= from && number <= to),
      `none of ${from} to ${to}: ${said}`,
    );
  }
}

test("every player shows the right picture at the right time", { timeout: 30 * 60_000 }, async (t) => {
  const answer = (await (await fetch(`${server}/api/v1/titles`)).json()) as { titles: { id: string }[] };
  assert.ok(answer.titles.length > 0);
  for (const { id } of answer.titles) {
    const film = films[id];
    assert.ok(film, `${id} is no film of this test`);
    const ways = Object.entries({ ...players, "the element": file });
    const runs = ways.map(([name, player]) => ({ name, run: () => playWith(player, id, readPictures) }));
    runs.push({ name: "the page", run: () => playOnPage(id, readPictures) });
    for (let i = 0; i < runs.length; i += SIDE_BY_SIDE) {
      const some = runs.slice(i, i + SIDE_BY_SIDE).map(({ name, run }) => ({ name, seen: run() }));
      for (const { name, seen } of some) {
        await t.test(`${id} with ${name}`, async () => check(film, await seen, name !== "the page"));
      }
    }
  }
});
