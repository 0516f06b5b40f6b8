import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bitRate,
  byteRate,
  bytes,
  clock,
  codecName,
  languageName,
  nameFromFile,
  resolutionLabel,
  spokenTime,
  timeLeft,
} from "../../src/format.ts";

test("clock", () => {
  assert.equal(clock(0), "0:00");
  assert.equal(clock(65.9), "1:05");
  assert.equal(clock(5045), "1:24:05");
  assert.equal(clock(Number.NaN), "0:00");
  assert.equal(clock(-3), "0:00");
});

test("spoken time", () => {
  assert.equal(spokenTime(0), "0 seconds");
  assert.equal(spokenTime(3661), "1 hour 1 minute 1 second");
  assert.equal(spokenTime(7200), "2 hours");
});

test("amounts keep three figures at most and change unit before four", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(999), "999 B");
  assert.equal(bytes(999_600), "1 MB");
  assert.equal(bytes(1_500_000), "1.5 MB");
  assert.equal(bytes(38_400_000_000), "38.4 GB");
  assert.equal(bytes(123_456_789), "123 MB");
  assert.equal(byteRate(12_000_000), "12 MB/s");
  assert.equal(bitRate(4_210_000), "4.2 Mb/s");
  for (let exponent = 0; exponent < 15; exponent += 0.01) {
    const figure = bytes(10 ** exponent).split(" ")[0] ?? "";
    assert.ok(figure.replace(".", "").length <= 3, `10^${exponent} became ${figure}`);
  }
});

test("time left", () => {
  assert.equal(timeLeft(0.2), "1 s left");
  assert.equal(timeLeft(59), "59 s left");
  assert.equal(timeLeft(61), "2 min left");
  assert.equal(timeLeft(5400), "1.5 h left");
  assert.equal(timeLeft(Number.POSITIVE_INFINITY), "");
});

test("picture sizes have the names people use, wide and upright films too", () => {
  const cases: [number, number, string][] = [
    [7680, 4320, "8K"],
    [3840, 2160, "4K"],
    [3840, 1600, "4K"],
    [1920, 1080, "1080p"],
    [1920, 800, "1080p"],
    [1440, 1080, "1080p"],
    [1080, 1920, "1080p"],
    [1280, 720, "720p"],
    [1280, 544, "720p"],
    [720, 576, "576p"],
    [960, 540, "540p"],
    [640, 360, "360p"],
    [640, 480, "480p"],
    [848, 480, "480p"],
    [854, 480, "480p"],
    [704, 576, "576p"],
    [4096, 1716, "4K"],
    [2048, 1080, "1080p"],
    [1920, 1088, "1080p"],
    [1000, 562, "562p"],
    [1150, 647, "647p"],
    [1600, 900, "900p"],
    [900, 500, "500p"],
    [320, 180, "180p"],
    [160, 90, "90p"],
    [0, 0, ""],
  ];
  for (const [width, height, label] of cases)
    assert.equal(resolutionLabel(width, height), label, `${width}x${height}`);
  // A picture of 16:9 is never called by a size that it does not have.
  for (let height = 100; height <= 2200; height += 2) {
    const label = resolutionLabel(Math.round((height * 16) / 9), height);
    const named = label === "4K" ? 2160 : Number.parseInt(label, 10);
    assert.ok(Math.abs(named - height) <= named * 0.02, `${height} lines became ${label}`);
  }
});

test("languages and codecs by name", () => {
  assert.equal(languageName("de"), "German");
  assert.equal(languageName("deu"), "German");
  assert.equal(languageName("pt-BR"), "Brazilian Portuguese");
  assert.equal(languageName("und"), "");
  assert.equal(languageName("not a tag"), "not a tag");
  assert.equal(codecName("avc1.64001f"), "H.264");
  assert.equal(codecName("hvc1.2.4.L150.B0"), "HEVC");
  assert.equal(codecName("av01.0.08M.08"), "AV1");
  assert.equal(codecName("vp09.00.31.08"), "VP9");
  assert.equal(codecName("mp4a.40.2"), "AAC");
  assert.equal(codecName("mp4a.40.34"), "MP3");
  assert.equal(codecName("ec-3"), "E-AC-3");
  assert.equal(codecName("dtsx"), "dtsx");
});

test("a name from a file", () => {
  assert.equal(nameFromFile("My_first.film.mp4"), "My first film");
  assert.equal(nameFromFile("A film, v1.2 final.mkv"), "A film, v1.2 final");
  assert.equal(nameFromFile("C:\\films\\über.webm"), "über");
  assert.equal(nameFromFile(".mp4"), "Untitled");
});
