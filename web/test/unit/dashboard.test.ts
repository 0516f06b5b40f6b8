import assert from "node:assert/strict";
import { test } from "node:test";
import type { MemberState } from "../../src/api/types.ts";
import { keep, points, type Sample, SPAN_S } from "../../src/dashboard/chart.ts";
import {
  milliseconds,
  pathEnd,
  percent,
  refusalName,
  resourceName,
  shareOf,
  shareText,
  sharingWords,
  stateWords,
  useWords,
} from "../../src/dashboard/words.ts";

const sample = (at_s: number, slack_ms = 500): Sample => ({ at_s, slack_ms, least_ms: slack_ms - 10 });

test("a chart keeps two minutes, each second once, and begins again with the server", () => {
  let samples: Sample[] = [];
  for (let at_s = 100; at_s <= 400; at_s += 1) samples = keep(samples, sample(at_s));
  assert.deepEqual([samples.length, samples[0]?.at_s], [SPAN_S + 1, 400 - SPAN_S]);
  samples = keep(samples, sample(400, 7));
  assert.deepEqual([samples.length, samples.at(-1)?.slack_ms], [SPAN_S + 1, 7]);
  assert.deepEqual(keep(samples, sample(3)), [sample(3)]);
});

test("the newest point is at the right edge, the least slack at the bottom", () => {
  const line = points(
    [sample(340, 0), sample(370, 1000), sample(400, -5000)],
    ({ slack_ms }) => slack_ms,
    -500,
    1000,
  );
  assert.equal(line, "120.0,42.7 180.0,0.0 240.0,64.0");
});

test("figures in words", () => {
  assert.deepEqual([412.4, 8.04, 0, -35.2, -0.01].map(milliseconds), [
    "412 ms",
    "8.0 ms",
    "0 ms",
    "−35 ms",
    "0.0 ms",
  ]);
  assert.deepEqual([999.6, 1000, -2800].map(milliseconds), ["1.00 s", "1.00 s", "−2.80 s"]);
  assert.deepEqual(["/srv/reel/disk0/member", "/dev/sdb"].map(pathEnd), ["…/disk0/member", "/dev/sdb"]);
  assert.equal(resourceName({ resource: "disk", member: 3 }), "Disk 3");
  assert.equal(resourceName({ resource: "disk-bytes", member: 3 }), "Disk 3, bytes");
  assert.equal(resourceName({ resource: "network" }), "Network");
  assert.equal(refusalName("processor"), "Processor");
  assert.equal(stateWords("missing"), "Missing");
  assert.equal(stateWords("sleepy" as MemberState), "Sleepy", "a state of a newer server");
  const use = { resource: "network", unit: "bytes", used: 1e6, capacity: null, peak_used: 2e6 } as const;
  assert.equal(useWords(use), "8 Mb/s, no limit known");
  assert.equal(
    useWords({ ...use, resource: "disk", member: 0, unit: "ns", used: 120e6, capacity: 700e6 }),
    "120 ms of 700 ms",
  );
  assert.equal(useWords({ ...use, resource: "memory", capacity: 4e6 }), "1 MB of 4 MB");
  assert.deepEqual([percent(1, 4), percent(9, 4), percent(1, 0), percent(1, null)], [25, 100, 0, 0]);
});

test("sessions that need no disk are counted in words, and nothing is said if there are none", () => {
  assert.equal(sharingWords({ groups: 0, followers: 0, kept_bytes: 0 }), "");
  assert.equal(
    sharingWords({ groups: 1, followers: 1, kept_bytes: 12e6 }),
    "1 session needs no disk: it plays from memory what another one has read (1 group, 12 MB kept).",
  );
  assert.match(
    sharingWords({ groups: 2, followers: 1038, kept_bytes: 63e6 }),
    /^1,038 sessions need no disk: .* \(2 groups, 63 MB kept\)\.$/,
  );
});

test("shares are written in percent and counted in thousandths", () => {
  assert.deepEqual([700, 125, 1].map(shareText), ["70", "12.5", "0.1"]);
  assert.deepEqual(["70", " 12,5 ", "0.1", "0"].map(shareOf), [700, 125, 1, 0]);
  for (const text of ["", " ", "much", "12.55", "1e"]) assert.ok(Number.isNaN(shareOf(text)), text);
});
