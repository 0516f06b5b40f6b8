/** Subtitles that were added to titles of the mock. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddedSubtitles, SubtitleTrack, Title } from "../../src/api/types.ts";
import { json, problem, text } from "./answers.ts";
import { tracks } from "./media.ts";

/** The numbers of added tracks follow those of the film. */
const FIRST = 1 + Math.max(...tracks.subtitles.map(({ track }) => track));

interface Added extends SubtitleTrack {
  vtt: string;
}

export class AddedTexts {
  private readonly added = new Map<string, Added[]>();
  private readonly titles: Title[];

  constructor(titles: Title[]) {
    this.titles = titles;
  }

  /** The added tracks of a title. */
  tracks(title: string): Added[] {
    return this.added.get(title) ?? [];
  }

  /** The file of an added track, by its path below a session. */
  file(title: string, path: string): string | undefined {
    const track = /^(\d+)\/text\.vtt$/.exec(path)?.[1];
    return this.tracks(title).find((added) => added.track === Number(track))?.vtt;
  }

  /** Answers a file of subtitles; one without a time is refused. */
  async take(request: IncomingMessage, response: ServerResponse, id: string, query: URLSearchParams) {
    const srt = await text(request);
    const at = this.titles.findIndex((title) => title.id === id);
    const title = this.titles[at];
    if (!title) return problem(response, 404, "No such title", `There is no title "${id}".`);
    const file = query.get("filename") ?? "the file";
    if (!srt.includes("-->")) {
      const why = `${file}: there is no cue in the file`;
      return problem(response, 422, "The file cannot be taken as subtitles", why);
    }
    const all = this.tracks(id);
    const [language, name] = [query.get("language") ?? "", query.get("label") ?? ""];
    const track: SubtitleTrack = { track: FIRST + all.length, language, name, forced: false };
    const vtt = `WEBVTT\n\n${srt.replace(/(\d),(\d)/g, "$1.$2")}`;
    this.added.set(id, [...all, { ...track, vtt }]);
    const now = { ...title, subtitles: [...title.subtitles, track] };
    this.titles[at] = now;
    const answer: AddedSubtitles = { title: now, warnings: [] };
    json(response, 201, "application/json", JSON.stringify(answer));
  }
}
