import assert from "node:assert/strict";
import { test } from "node:test";
import type { MemberState } from "../../src/api/types.ts";
import { castFaults, castsInWords } from "../../src/dashboard/casts.ts";
import { keep, points, type Sample, SPAN_S } from "../../src/dashboard/chart.ts";
import {
  isRecent,
  lateViewerWords,
  lateWords,
  memberWords,
  milliseconds,
  pathEnd,
  percent,
  rebuildable,
  refusalName,
  repairWords,
  resourceName,
  shareOf,
  shareProblem,
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
  const member = { state: "present", in_use: true } as const;
  assert.equal(memberWords({ ...member, activity: "active" }), "Healthy");
  assert.equal(memberWords({ ...member, activity: "waking" }), "Healthy, waking");
  assert.equal(memberWords({ ...member, activity: "silent" }), "Healthy, does not answer");
  assert.equal(memberWords({ state: "failed", in_use: false, activity: "silent" }), "Failed");
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

test("what is wrong with shares is said in per cent", () => {
  const problem = (...texts: string[]) =>
    shareProblem(
      texts.map((text, i) => ({ name: `c${i}`, text })),
      "shares",
    );
  assert.equal(problem("70", "29.5", "0.5"), undefined);
  assert.equal(problem("80", "15", "15"), "The shares make 110%; they must make 100%.");
  assert.equal(problem("70", "29.4"), "The shares make 99.4%; they must make 100%.");
  for (const text of ["0", "-5", "101", "12.55", "much", ""])
    assert.match(problem("70", text) ?? "", /not a valid share for c1; use a number from 0\.1 to 100/);
});

test("what is to be done about disks that are not in use", () => {
  const members = (...states: MemberState[]) =>
    states.map((state, member) => ({
      member,
      state,
      in_use: ["present", "swapped", "repaired"].includes(state),
    }));
  assert.equal(repairWords(members("present", "repaired")), "");
  assert.equal(repairWords(members("present", "stale")), "Disk 1 lacks data: rebuild.");
  assert.match(repairWords(members("missing", "present")), /^Disk 0 cannot be used: give it a replacement/);
  assert.match(
    repairWords(members("missing", "stale", "damaged", "failed")),
    /^Disks 1 and 3 lack data: rebuild\. Disks 0 and 2 cannot be used: give each a replacement/,
  );
  assert.deepEqual(
    rebuildable(members("present", "missing", "rebuilding")).map(({ member }) => member),
    [2],
  );
});

test("late data has a viewer, and is recent for ten minutes", () => {
  const late = { key_hint: "ab12", client: "user 1000", class: "films", units: 1, late_ms: 2345 };
  assert.equal(
    lateViewerWords({ ...late, ago_s: 61 }),
    "2.35 s late, 1 unit, 1 min ago · user 1000 · ab12… · films",
  );
  assert.deepEqual(
    [0, 599, 600].map((ago_s) => isRecent({ ago_s })),
    [true, true, false],
  );
});

test("a late request has a time and a class", () => {
  assert.equal(lateWords({ late: 0, last_late: null }), "none");
  const words = (ago_s: number) => lateWords({ late: 2, last_late: { class: "periodic", ago_s } });
  assert.deepEqual([5, 300, 7200, 200_000].map(words), [
    "2 requests, last 5 s ago (periodic)",
    "2 requests, last 5 min ago (periodic)",
    "2 requests, last 2 h ago (periodic)",
    "2 requests, last 2 days ago (periodic)",
  ]);
});

test("casts are counted, and what is wrong with them is said", () => {
  const none = { on_air: 0, waiting: 0, rate_bps: 0, late_packets: 0, lost_packets: 0 };
  assert.equal(castsInWords(none), "No cast is on the air");
  assert.equal(castFaults(none), "");
  assert.equal(castsInWords({ ...none, on_air: 1, rate_bps: 5e6 }), "1 cast on the air, 5 Mb/s with FEC");
  const amiss = { ...none, waiting: 1, late_packets: 1200, lost_packets: 1 };
  assert.equal(castFaults(amiss), "1 cast waiting for room, 1,200 packets late, 1 packet not sent");
});
