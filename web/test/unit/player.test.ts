import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem, problemFrom } from "../../src/api/problem.ts";
import type { Title } from "../../src/api/types.ts";
import { commandOf, keyHelp, stepSpeed } from "../../src/player/keys.ts";
import { explainRefusal } from "../../src/player/refusal.ts";
import { worthResuming } from "../../src/player/resume.ts";
import { StallMeter } from "../../src/player/stalls.ts";
import { type Decoders, supportOf } from "../../src/player/support.ts";
import { startText } from "../../src/player/waiting.ts";
import { RateMeter } from "../../src/upload/rate.ts";

test("keys", () => {
  assert.deepEqual(commandOf({ key: " " }), { do: "toggle" });
  assert.deepEqual(commandOf({ key: "K" }), { do: "toggle" });
  assert.deepEqual(commandOf({ key: "7" }), { do: "seekTo", fraction: 0.7 });
  assert.deepEqual(commandOf({ key: "End" }), { do: "seekTo", fraction: 1 });
  assert.equal(commandOf({ key: "f", ctrlKey: true }), undefined, "the browser's own keys are left alone");
  assert.equal(commandOf({ key: "Tab" }), undefined);
});

test("every key in the help does something", () => {
  const names: Record<string, string> = {
    Space: " ",
    "←": "ArrowLeft",
    "→": "ArrowRight",
    "↑": "ArrowUp",
    "↓": "ArrowDown",
  };
  for (const [keys] of keyHelp) for (const key of keys) assert.ok(commandOf({ key: names[key] ?? key }), key);
});

test("speeds go step by step and stop at the ends", () => {
  assert.equal(stepSpeed(1, 1), 1.25);
  assert.equal(stepSpeed(1.1, -1), 0.75);
  assert.equal(stepSpeed(2, 1), 2);
  assert.equal(stepSpeed(0.5, -1), 0.5);
});

test("a stall counts from its begin to its end, once", () => {
  const meter = new StallMeter();
  meter.begin(1000);
  meter.begin(1500);
  assert.equal(meter.current_ms(3000), 2000);
  meter.end(3000);
  meter.end(9000);
  assert.deepEqual([meter.count, meter.total_ms], [1, 2000]);
  meter.begin(10_000);
  meter.end(10_020);
  assert.equal(meter.count, 1, "a wait that is not visible is no stall");
  meter.begin(11_000);
  meter.forget();
  meter.end(20_000);
  assert.deepEqual([meter.count, meter.total_ms], [1, 2000]);
});

test("a start that has to wait says for how long", () => {
  assert.equal(startText(2100, 400), "Starts in 3 s");
  assert.equal(startText(0, 2000), "");
  assert.equal(startText(-500, 3500), "Waiting for the first pictures");
});

test("a refusal in words", () => {
  const disk = explainRefusal(
    new Problem(503, {
      resource: "disk",
      member: 3,
      asked: 12_400_000,
      available: 3_000_000,
      grantable_rate_bps: 2.1e6,
      retry_after_s: 20,
    }),
  );
  assert.equal(
    disk.lines[0],
    "Disk 3 is reserved for other viewers: this film needs 12 ms in each second, and 3.0 ms is left.",
  );
  assert.equal(disk.lines[1], "A stream of up to 2.1 Mb/s could start now.");
  assert.equal(disk.retry_s, 20);
  const full = explainRefusal(
    new Problem(503, { resource: "network", asked: 1e6, available: 0, grantable_rate_bps: 0 }),
  );
  assert.equal(
    full.lines[0],
    "The network is reserved for other viewers: this film needs 8 Mb/s, and nothing is left.",
  );
  assert.equal(full.lines.length, 2, "no rate where none could be granted");
  const memory = explainRefusal(new Problem(503, { resource: "memory", asked: 64e6, available: 12e6 }));
  assert.match(memory.lines.join(" "), /needs 64 MB, and 12 MB is left/);
  const bare = explainRefusal(new Problem(503, { detail: "No place." }, 7));
  assert.ok(bare.lines.includes("No place."));
  assert.equal(bare.retry_s, 7);
  const share = explainRefusal(new Problem(429, { resource: "network", asked: 1e6, available: 0 }, 30));
  assert.match(share.heading, /Your address has its share/);
  assert.match(share.lines[0] ?? "", /as much as one address may have/);
  assert.equal(explainRefusal(new Problem(503, {})).retry_s, 10);
  assert.equal(explainRefusal(new Problem(503, { retry_after_s: 0 })).retry_s, 1, "never a busy loop");
});

test("an error answer always has words", () => {
  assert.equal(
    problemFrom(507, "application/problem+json", '{"title":"Full","detail":"d"}', null).detail,
    "d",
  );
  assert.equal(problemFrom(502, "text/html", "<h1>Bad gateway</h1>", null).headline, "The server failed");
  assert.match(
    problemFrom(413, "text/html", "<h1>Too large</h1>", null).detail,
    /proxy.*client_max_body_size/,
  );
  assert.equal(problemFrom(503, "application/json", "not json", "12").retryAfterS, 12);
  assert.equal(problemFrom(503, null, "", "Fri, 31 Dec 1999 23:59:59 GMT").retryAfterS, undefined);
});

test("which positions are worth coming back to", () => {
  assert.equal(worthResuming({ at_s: 3, of_s: 5400 }), false);
  assert.equal(worthResuming({ at_s: 60, of_s: 5400 }), true);
  assert.equal(worthResuming({ at_s: 5300, of_s: 5400 }), false);
  assert.equal(worthResuming({ at_s: 8, of_s: 40 }), true, "short films too");
});

test("the rate of a transfer is that of its last seconds", () => {
  const meter = new RateMeter(4000);
  meter.sample(0, 0);
  assert.equal(meter.bytesPerSecond(), undefined);
  for (let second = 1; second <= 10; second += 1) meter.sample(second * 1000, second * 1_000_000);
  assert.equal(meter.bytesPerSecond(), 1_000_000);
  assert.equal(meter.secondsLeft(20_000_000), 10);
  for (let second = 11; second <= 20; second += 1)
    meter.sample(second * 1000, 10_000_000 + (second - 10) * 4_000_000);
  assert.equal(meter.bytesPerSecond(), 4_000_000);
});

test("a title is played in the first way that plays all of it", () => {
  const can = (list: string) => (type: string) =>
    list.split(" ").some((codec) => type.includes(`"${codec}"`));
  const decoders = { source: can("avc opus"), element: can("avc opus mp3"), hls: true };
  const title = (video: string[], audio: string[]) =>
    ({
      video: video.map((codec, i) => ({ codec, width: 640 - i, height: 360, bitrate_bps: 1 })),
      audio: audio.map((codec) => ({ codec })),
    }) as Pick<Title, "video" | "audio">;
  const of = (video: string[], audio: string[], change: Partial<Decoders> = {}) =>
    supportOf(title(video, audio), { ...decoders, ...change });

  assert.equal(of(["avc"], ["opus"]).way, "hls");
  assert.equal(of(["hvc1", "avc"], ["ac-3", "opus"]).way, "hls", "one rendition and one sound are enough");
  assert.equal(of([], ["opus"]).way, "hls");
  assert.equal(of(["avc"], ["mp3"]).way, "progressive");
  assert.equal(of(["avc"], ["opus"], { source: undefined }).way, "native");
  assert.equal(of(["avc"], ["opus"], { source: undefined, hls: false }).way, "progressive");
  assert.deepEqual(of(["hvc1"], ["opus"]), { way: undefined, part: "sound", missing: ["HEVC"] });
  assert.deepEqual(of(["avc"], ["ac-3"]), { way: undefined, part: "picture", missing: ["AC-3"] });
  assert.deepEqual(of(["hvc1"], ["ec-3"]), { way: undefined, part: undefined, missing: ["HEVC", "E-AC-3"] });
  assert.deepEqual(of(["hvc1"], []), { way: undefined, part: undefined, missing: ["HEVC"] });
  // The one file has the largest rendition, and its first sound is heard.
  assert.equal(of(["hvc1", "avc"], ["mp3"]).way, undefined);
  assert.equal(of(["avc"], ["ac-3", "mp3"]).way, undefined);
});
