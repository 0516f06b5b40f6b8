/** Films that not every browser plays in every form. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import type { Page } from "playwright-core";
import type { Title } from "../../src/api/types.ts";
import { results } from "../places.ts";
import { begin, pickFilm, untilPlayed, useStage, videoState } from "./harness.ts";

const stage = useStage();
const mp3 = join(results, "mp3.mp4");

before(() => {
  const inputs = "-f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=440:sample_rate=48000";
  const codecs = "-t 120 -c:v libx264 -threads 1 -g 50 -c:a libmp3lame -movflags faststart";
  const options = ["-nostdin", "-v", "error", "-y", ...inputs.split(" "), ...codecs.split(" ")];
  execFileSync("ffmpeg", [...options, mp3]);
});

/** The server says of the film that it has these codecs, and sends this file as its MP4. */
async function pretend(page: Page, film: Title, video: string, audio: string, file: string): Promise<void> {
  const title: Title = {
    ...film,
    video: film.video.slice(0, 1).map((track) => ({ ...track, codec: video })),
    audio: film.audio.slice(0, 1).map((track) => ({ ...track, codec: audio })),
  };
  await page.route("**/api/v1/titles", (route) => route.fulfill({ json: { titles: [title] } }));
  await page.route(`**/api/v1/titles/${film.id}`, (route) => route.fulfill({ json: title }));
  await page.route("**/s/*/*.mp4", (route) =>
    route.fulfill({ contentType: "video/mp4", body: readFileSync(file) }),
  );
}

/** A film with MP3 in MP4: sent to a real server; else the mock's film is changed into one. */
async function mp3Film(): Promise<{ film: Title; prepare?: (page: Page) => Promise<void> }> {
  if (stage.mock) {
    const film = await pickFilm(stage);
    return { film, prepare: (page) => pretend(page, film, "avc1.64001f", "mp4a.6B", mp3) };
  }
  const answer = await fetch(`${stage.url}/api/v1/titles?filename=mp3.mp4&wait=true`, {
    method: "POST",
    body: readFileSync(mp3),
  });
  assert.equal(answer.status, 201);
  return { film: (await answer.json()) as Title };
}

test("a film whose sound is MP3 plays as one file, with its sound", async () => {
  const { film, ...options } = await mp3Film();
  const { page, calm, close } = await stage.open(`/title/${film.id}`, options);
  await begin(page);
  await untilPlayed(page, 1);
  const { videoWidth } = await videoState(page);
  assert.equal(videoWidth, 320);
  const heard = await page.evaluate(() => {
    const video = document.querySelector("video") as HTMLVideoElement & {
      webkitAudioDecodedByteCount: number;
    };
    return [new URL(video.currentSrc).protocol, video.webkitAudioDecodedByteCount > 0];
  });
  assert.deepEqual(heard, ["http:", true], "one file, not Media Source Extensions");
  calm();
  await close();
  if (!stage.mock) await fetch(`${stage.url}/api/v1/titles/${film.id}`, { method: "DELETE" });
});

test("the library marks what this browser cannot play, and the title's page says which track", async () => {
  const film = await pickFilm(stage);
  for (const [video, audio, mark] of [
    ["hvc1.2.4.L150.B0", "ac-3", "Not in this browser"],
    ["hvc1.2.4.L150.B0", "opus", "No picture in this browser"],
    ["avc1.64001f", "ec-3", "No sound in this browser"],
    ["avc1.64001f", "mp4a.6B", ""],
  ] as const) {
    for (const window of ["desktop", "phone"] as const) {
      const { page, shot, calm, close } = await stage.open("/", {
        window,
        prepare: (page) => pretend(page, film, video, audio, mp3),
      });
      await page.waitForSelector(".card");
      assert.deepEqual(await page.locator(".badge-support").allTextContents(), mark ? [mark] : []);
      const name = (await page.getAttribute(".card-link", "aria-label")) ?? "";
      assert.equal(name.includes("in this browser"), mark !== "");
      await shot(`library-lacks-${audio}-${window}`);
      if (window === "desktop" && video.startsWith("hvc1")) {
        await page.click(".card-link");
        assert.match((await page.textContent(".details-block")) ?? "", /HEVC \(not in this browser\)/);
      }
      calm();
      await close();
    }
  }
});

for (const { video, audio, words, action, plays } of [
  { video: "hvc1.2.4.L150.B0", audio: "ac-3", words: /cannot play HEVC and AC-3/, action: "", plays: "" },
  {
    video: "hvc1.2.4.L150.B0",
    audio: "opus",
    words: /cannot play the picture of this title \(HEVC\)/,
    action: "Play the sound only",
    plays: "",
  },
  {
    video: "avc1.64001f",
    audio: "ec-3",
    words: /cannot play the sound of this title \(E-AC-3\)/,
    action: "Play without sound",
    plays: "mp3.mp4",
  },
]) {
  test(`a film with ${video} and ${audio} is said not to be playable before it begins`, async () => {
    const film = await pickFilm(stage);
    let opened = 0;
    const { page, shot, calm, close } = await stage.open(`/title/${film.id}`, {
      prepare: async (page) => {
        page.on("request", (request) => {
          if (request.url().endsWith("/sessions")) opened += 1;
        });
        await pretend(page, film, video, audio, mp3);
      },
    });
    await page.waitForSelector(".message .failure");
    const text = (await page.textContent(".message")) ?? "";
    assert.match(text, words);
    assert.match(text, /VLC or mpv/);
    assert.equal(opened, 0, "nothing is reserved for it");
    assert.equal(await page.locator(".message .button.primary").count(), action ? 1 : 0);
    await shot(`player-lacks-${audio}`);
    if (plays) {
      await page.click(`text=${action}`);
      await untilPlayed(page, 0.3);
    }
    calm();
    await close();
  });
}
