import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../src/api/problem.ts";
import type { Cast, CastSlots } from "../../src/api/types.ts";
import { cellsOf, colourOf, slotAfter, slotsIn, slotsInWords, stripX } from "../../src/casts/geometry.ts";
import { freeGroup } from "../../src/casts/groups.ts";
import { groupOf, isSourceSpecific, linesOf, shellWord } from "../../src/casts/lines.ts";
import {
  groupWords,
  rateWords,
  refusalWords,
  sentBps,
  tallyWords,
  waitWords,
} from "../../src/casts/words.ts";
import { cast } from "../mock/casts.ts";

const title = { id: "tide", name: "Tide" };
const origin = "http://attic:8080";

const schedule = (scheme: string): Partial<Cast> => ({
  schedule: {
    scheme,
    channels: 5,
    segments: 36,
    slot_s: 10,
    wait_s: 20,
    bandwidth_bps: 20_000_000,
    peak_bps: 31_000_000,
  },
});

const lines = (change: Partial<Cast>, from = origin) =>
  linesOf(cast(title, change), from).map(({ line }) => line);

test("a cast to one group is for all players, with the ports of its FEC", () => {
  const all = lines({});
  assert.deepEqual(all.slice(0, 5), [
    "reel receive http://attic:8080/casts/tide.sdp | mpv -",
    "reel receive http://attic:8080/casts/tide.sdp | ffplay -",
    "reel receive http://attic:8080/casts/tide.sdp -o tide.ts",
    "ffplay -protocol_whitelist file,http,tcp,rtp,udp http://attic:8080/casts/tide.sdp",
    "ffmpeg -protocol_whitelist file,http,tcp,rtp,udp -i http://attic:8080/casts/tide.sdp -c copy tide.ts",
  ]);
  const gstreamer = all[5] ?? "";
  assert.match(gstreamer, /address=239.255.1.1 port=5002 caps="application\/x-rtp,payload=96"/);
  assert.match(gstreamer, /address=239.255.1.1 port=5000 caps=".*payload=33" ! queue ! r.recv_rtp_sink_0/);
  assert.deepEqual(all.slice(6), ["vlc rtp://239.255.1.1:5000", "mpv rtp://239.255.1.1:5000"]);
  const { fec: _, ...plain } = cast(title, {});
  assert.doesNotMatch(linesOf(plain, origin)[5]?.line ?? "", /fec/);
  assert.match(lines({}, "https://attic")[3] ?? "", /,udp,https,tls https:/);
});

test("only reel receive follows a schedule; a staggered channel is a film by itself", () => {
  for (const scheme of ["rfs", "fast", "skyscraper-52"])
    for (const line of lines(schedule(scheme))) assert.match(line, /^reel receive /);
  assert.ok(lines(schedule("staggered")).includes("vlc rtp://239.255.1.1:5000"));
});

test("a wait is that of reel receive; other programs wait for a slot of staggered", () => {
  assert.equal(waitWords(cast(title, {})), "none");
  assert.equal(waitWords(cast(title, schedule("rfs"))), "at most 20 s");
  assert.equal(
    waitWords(cast(title, schedule("staggered"))),
    "at most 20 s; other programs at most 10 s until a channel begins the film",
  );
});

test("a source-specific group needs its sender, which the description names", () => {
  assert.ok(isSourceSpecific("232.1.1.1:5000") && isSourceSpecific("[ff3e::1]:5000"));
  assert.ok(!isSourceSpecific("239.1.1.1:5000") && !isSourceSpecific("[ff15::1]:5000"));
  const ofOne = lines({ group: "232.1.1.1:5000", source: "10.0.0.1" });
  assert.deepEqual(
    ofOne.filter((line) => !line.includes("/casts/tide.sdp")),
    ["vlc rtp://10.0.0.1@232.1.1.1:5000", "mpv 'rtp://232.1.1.1:5000?sources=10.0.0.1'"],
  );
  assert.ok(
    lines({ group: "[ff3e::1]:5000", source: "fd00::1" }).includes("vlc 'rtp://[fd00::1]@[ff3e::1]:5000'"),
  );
});

test("words are quoted for the shell where that is needed", () => {
  assert.equal(shellWord("http://attic:8080/a-b_c.sdp"), "http://attic:8080/a-b_c.sdp");
  assert.equal(shellWord("rtp://[ff15::1]:5000"), "'rtp://[ff15::1]:5000'");
  assert.equal(shellWord("it's $(it)"), "'it'\\''s $(it)'");
  assert.equal(shellWord(""), "''");
  assert.deepEqual(groupOf("[ff15::1]:5000"), { host: "ff15::1", port: 5000 });
  assert.deepEqual(groupOf("239.1.1.1:5000"), { host: "239.1.1.1", port: 5000 });
});

test("the rate of a cast is that of all groups with FEC", () => {
  assert.equal(sentBps(cast(title, {})), 5_000_000);
  assert.equal(sentBps(cast(title, schedule("rfs"))), 25_000_000);
  assert.equal(rateWords(cast(title, {})), "4 Mb/s, 5 Mb/s with FEC 20 × 4");
  assert.equal(groupWords(cast(title, schedule("rfs"))), "239.255.1.1:5000 and the next 4 addresses");
  const casts = [cast(title, {}), cast(title, { state: "ended" })];
  assert.equal(tallyWords(casts), "1 of 2 casts on the air · 5 Mb/s");
});

test("a free group is one whose next addresses are free, too", () => {
  assert.equal(freeGroup([]), "239.255.1.1:5000");
  const at = (group: string, channels = 1) =>
    cast(title, { group, ...schedule("rfs"), schedule: { ...schedule("rfs").schedule, channels } as never });
  assert.equal(freeGroup([at("239.255.1.9:7000"), at("239.255.2.250:5000", 20)]), "239.255.4.1:5000");
  assert.equal(freeGroup([cast(title, { state: "ended" })]), "239.255.1.1:5000");
  assert.equal(freeGroup([at("239.1.1.1:5000"), at("[ff15::1]:5000")]), "239.255.1.1:5000");
});

test("a refusal says what could be granted", () => {
  const detail = "the network is fully promised";
  const problem = (grantable_rate_bps?: number) =>
    new Problem(503, { detail, ...(grantable_rate_bps === undefined ? {} : { grantable_rate_bps }) });
  assert.equal(refusalWords(problem()), "The network is fully promised");
  assert.match(refusalWords(problem(0)), /promised\. No rate could be granted now\.$/);
  assert.match(refusalWords(problem(2_100_000)), /A stream of up to 2\.1 Mb\/s could be granted now\.$/);
});

const slots: CastSlots = {
  slot_s: 2,
  segments: 3,
  now_slot: 4.5,
  first_slot: 4,
  channels: [
    { group: "239.255.1.1:5000", segments: [1, 1, 1] },
    { group: "239.255.1.2:5000", segments: [2, null, 2] },
  ],
  client: {
    arrival_slot: 5,
    until_slot: 7,
    segments: [
      { segment: 1, channel: 0, received_slot: 5, played_slot: 6 },
      { segment: 2, channel: 1, received_slot: 6, played_slot: 7 },
    ],
  },
};

test("the cells of a schedule are those that are sent, and those that a client plays", () => {
  assert.deepEqual(
    cellsOf(slots).map(({ row, slot, segment, isOfClient }) => [row, slot, segment, isOfClient]),
    [
      [0, 4, 1, false],
      [0, 5, 1, true],
      [0, 6, 1, false],
      [1, 4, 2, false],
      [1, 6, 2, true],
      [2, 6, 1, true],
    ],
  );
});

test("the schedule moves by a slot in the time of a slot, and now stays at its line", () => {
  assert.equal(slotAfter(slots, 0), 4.5);
  assert.equal(slotAfter(slots, 3000), 6);
  assert.equal(slotAfter({ ...slots, now_slot: null }, 9), undefined);
  assert.equal(stripX(400, 4, 4), 100);
  assert.equal(stripX(400, 5, 4), 70);
  assert.deepEqual([slotsIn(10), slotsIn(600), slotsIn(9999)], [6, 20, 60]);
  assert.notEqual(colourOf(1, 3), colourOf(3, 3));
  assert.match(colourOf(1, 1), /^hsl\(30 /);
  assert.equal(
    slotsInWords(slots, 4.5),
    "Slot 4 of the schedule: channel 1 sends segment 1, channel 2 sends segment 2. A client that joins now receives from slot 5 until slot 7, and plays from slot 6 on.",
  );
});
