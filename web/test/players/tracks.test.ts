/**
 * What players list of the title `tracks`: its only sound has no name and no language, and it has
 * subtitles and forced subtitles in German.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, type Player, players, server } from "./players.ts";

/** What is used of the players, each of which has some of it. */
interface Listing {
  audioTracks: { name: string; default: boolean }[];
  subtitleTracks: { lang: string; forced: boolean }[];
  getTracksFor(kind: "text" | "audio"): { lang: string; roles: { value: string }[] }[];
  getTextTracks(): { language: string; forced: boolean }[];
}

/** Language and kind of each list of subtitles. */
type Subtitles = [string, boolean][];

const lists: Record<string, () => Subtitles> = {
  "hls.js": () => listing().subtitleTracks.map(({ lang, forced }) => [lang, forced]),
  "dash.js": () =>
    listing()
      .getTracksFor("text")
      .map(({ lang, roles }) => [lang, roles.some(({ value }) => value === "forced-subtitle")]),
  "Shaka with DASH": () =>
    listing()
      .getTextTracks()
      .map(({ language, forced }) => [language, forced]),
  "Shaka with HLS": () =>
    listing()
      .getTextTracks()
      .map(({ language, forced }) => [language, forced]),
};

function listing(): Listing {
  return (window as unknown as { player: Listing }).player;
}

for (const [name, player] of Object.entries(players)) {
  test(`${name} lists the subtitles, and which of them are forced`, async () => {
    const listed = await listedBy(player, lists[name] ?? (() => []));
    const sorted = listed.sort(([, one], [, other]) => Number(one) - Number(other));
    assert.deepEqual(sorted, [
      ["de", false],
      ["de", true],
    ]);
  });
}

test("the only sound is the main one, and has the same name as on the page", async () => {
  const { "hls.js": hls, "dash.js": dash } = players;
  assert.ok(hls && dash);
  const names = await listedBy(hls, () => listing().audioTracks.map((track) => [track.name, track.default]));
  assert.deepEqual(names, [["Track 1", true]]);
  const roles = await listedBy(dash, () =>
    listing()
      .getTracksFor("audio")
      .map((track) => track.roles[0]?.value),
  );
  assert.deepEqual(roles, ["main"]);
});

/** What a player lists once it can play. */
async function listedBy<T>({ script, form, begin }: Player, list: () => T): Promise<T> {
  const page = await open(`${server}/players-test`);
  if (script) await page.addScriptTag({ path: script });
  await page.addScriptTag({ content: `${listing}` });
  await page.locator("video").evaluate((video) => Object.assign(window, { video, seen: { errors: [] } }));
  await page.evaluate(begin, `${server}/watch/tracks/${form}`);
  await page.waitForFunction(() => window.video.readyState >= 2);
  const listed = await page.evaluate(list);
  await page.context().close();
  return listed;
}
