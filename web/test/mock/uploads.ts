/** Uploads to the mock: each becomes a copy of the first title. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Job, Title } from "../../src/api/types.ts";
import { mockTitles } from "./titles.ts";

/** How long each of the three steps of an ingest takes. */
const STEP_MS = 400;

export class Uploads {
  private readonly known = new Map<string, Job>();
  private readonly titles: Title[];

  constructor(titles: Title[]) {
    this.titles = titles;
  }

  jobs(): Job[] {
    return [...this.known.values()];
  }

  job(id: string): Job | undefined {
    return this.known.get(id);
  }

  /** Answers an upload; a file that begins with "fail" is not taken. */
  async take(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    const files = (query.get("files") ?? "film/0").split("/");
    const fileName = files[0] ?? "film";
    const names = files.filter((_, i) => i % 2 === 0);
    const subtitles = names.filter((name) => /\.(srt|vtt|ass)$/.test(name));
    const { head, size } = await receive(request);
    const job = this.begin(fileName, size);
    response
      .writeHead(202, { "content-type": "application/json", location: `../../api/v1/jobs/${job.id}` })
      .end(JSON.stringify(job));
    if (head === "fail") {
      const error = `${fileName} is neither MP4, Matroska nor MPEG-TS: it begins with "fail".`;
      Object.assign(job, { state: "failed", error } satisfies Partial<Job>);
      return;
    }
    for (const part of [0.3, 0.6, 1]) {
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
      Object.assign(job, { done_bytes: Math.round(size * part), rate_bytes_per_s: size, eta_s: 1 - part });
    }
    const replaces = query.get("replaces");
    const old = this.titles.find((title) => title.id === replaces);
    const id = old?.id ?? this.freeId(fileName.toLowerCase().replace(/[^a-z0-9]+/g, "-"));
    if (old) this.titles.splice(this.titles.indexOf(old), 1);
    const first = mockTitles()[0] as Title;
    this.titles.unshift({
      ...first,
      video: first.video.slice(0, names.length - subtitles.length),
      subtitles: subtitles.map((name, i) => ({ track: 4 + i, language: "", name, forced: false })),
      source: { name: fileName, bytes: Number(files[1]) },
      id,
      name: old?.name ?? query.get("name") ?? fileName,
      added: new Date().toISOString(),
      bytes: size,
      poster: `/img/${id}.svg`,
    });
    Object.assign(job, { state: "done", title_id: id, eta_s: 0 } satisfies Partial<Job>);
  }

  /** The form ts of a title is made, in a few steps. */
  stream(title: Title): Job {
    const job = this.begin(`${title.id}: form ts`, title.bytes);
    const steps = [0.3, 0.6, 1];
    for (const [i, part] of steps.entries())
      setTimeout(
        () => {
          job.done_bytes = Math.round(title.bytes * part);
          if (part < 1) return;
          title.forms.push({ form: "ts", bytes: title.bytes, average_bps: 4_000_000, peak_bps: 6_000_000 });
          Object.assign(job, { state: "done", title_id: title.id, eta_s: 0 } satisfies Partial<Job>);
        },
        STEP_MS * (i + 1),
      );
    return job;
  }

  private freeId(stem: string): string {
    let id = stem;
    for (let i = 2; this.titles.some((title) => title.id === id); i += 1) id = `${stem}-${i}`;
    return id;
  }

  private begin(file_name: string, total_bytes: number): Job {
    const job: Job = {
      id: `job-${this.known.size + 1}`,
      kind: "ingest",
      file_name,
      state: "ingesting",
      done_bytes: 0,
      total_bytes,
      rate_bytes_per_s: 0,
      eta_s: null,
      title_id: null,
      error: null,
      result: null,
      warnings: [],
    };
    this.known.set(job.id, job);
    return job;
  }
}

/** Reads a whole body; gives its first four characters and its size. */
async function receive(request: IncomingMessage): Promise<{ head: string; size: number }> {
  let size = 0;
  const head: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) {
    if (size < 4) head.push(piece);
    size += piece.length;
  }
  return { head: Buffer.concat(head).subarray(0, 4).toString("latin1"), size };
}
