/** Speaks Reel's web interface from memory, for tests of the pages and for looking at them. Not a media server. */

import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";
import type { Job, Title, TrafficClass } from "../../src/api/types.ts";
import { mockPromises, type MockPromises } from "./dashboard.ts";
import { SECONDS, tracks } from "./media.ts";
import { mockTitles } from "./titles.ts";

export interface Mock {
  url: string;
  /** Sessions open now. */
  sessions: Map<string, string>;
  titles: Title[];
  promises: MockPromises;
  close(): Promise<void>;
}

const POLICY =
  "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data:; frame-ancestors 'self'";
const types: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".m3u8": "application/vnd.apple.mpegurl",
  ".m4s": "video/iso.segment",
  ".mp4": "video/mp4",
  ".svg": "image/svg+xml",
  ".vtt": "text/vtt; charset=utf-8",
};

export async function startMock(options: {
  dist: string;
  media: string;
  port?: number;
  empty?: boolean;
}): Promise<Mock> {
  const titles = options.empty ? [] : mockTitles();
  const sessions = new Map<string, string>();
  const jobs = new Map<string, Job>();
  const promises = mockPromises();
  let nextKey = 1;

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://mock");
    const path = decodeURIComponent(url.pathname);
    const route = `${request.method} ${path}`;
    let found: RegExpExecArray | null;

    if (path === "/" || path === "/dashboard" || path.startsWith("/title/")) {
      file(request, response, join(options.dist, "index.html"));
    } else if (path.startsWith("/assets/")) {
      file(request, response, join(options.dist, normalize(path)));
    } else if (path.startsWith("/img/")) {
      const at = titles.findIndex((title) => title.poster === path);
      if (path.endsWith(".svg")) json(response, 200, "image/svg+xml", card(path));
      else if (at < 0) problem(response, 404, "No such picture", "There is no such title.");
      else file(request, response, join(options.media, `poster-${at % 5}.jpg`));
    } else if (route === "GET /api/v1/titles") {
      json(response, 200, "application/json", JSON.stringify({ titles }));
    } else if ((found = /^(GET|DELETE) \/api\/v1\/titles\/([^/]+)$/.exec(route))) {
      const at = titles.findIndex((title) => title.id === found?.[2]);
      if (at < 0) problem(response, 404, "No such title", `There is no title "${found[2]}".`);
      else if (found[1] === "GET") json(response, 200, "application/json", JSON.stringify(titles[at]));
      else {
        titles.splice(at, 1);
        response.writeHead(204).end();
      }
    } else if (route === "POST /api/v1/titles") {
      await upload(request, response, url.searchParams);
    } else if (route === "GET /api/v1/jobs") {
      json(
        response,
        200,
        "application/json",
        JSON.stringify({ jobs: [...promises.jobs(), ...jobs.values()] }),
      );
    } else if ((found = /^GET \/api\/v1\/jobs\/([^/]+)$/.exec(route))) {
      const job = jobs.get(found[1] ?? "");
      if (job) json(response, 200, "application/json", JSON.stringify(job));
      else problem(response, 404, "No such job", "Ended jobs are forgotten after a while.");
    } else if ((found = /^DELETE \/api\/v1\/jobs\/([^/]+)$/.exec(route))) {
      if (promises.cancel(found[1] ?? ""))
        json(response, 202, "application/json", JSON.stringify(promises.jobs()[0]));
      else problem(response, 409, "The job is over", "Nothing was changed.");
    } else if (route === "GET /api/v1/dashboard") {
      json(response, 200, "application/json", JSON.stringify(promises.dashboard(sessions)));
    } else if (route === "PUT /api/v1/classes") {
      const wrong = promises.change(JSON.parse(await text(request)) as TrafficClass[]);
      if (wrong === undefined) json(response, 200, "application/json", JSON.stringify(promises.classes));
      else problem(response, 422, "These classes are not possible", wrong);
    } else if ((found = /^POST \/api\/v1\/volume\/(scrub|rebuild)$/.exec(route))) {
      const job = promises.start(found[1] as "scrub" | "rebuild");
      if (job) json(response, 202, "application/json", JSON.stringify(job));
      else problem(response, 409, "The volume is being worked on", "Wait for it, or end it.");
    } else if (route === "POST /api/v1/sessions") {
      const { title } = JSON.parse(await text(request)) as { title: string };
      // As in the real server, the first four characters tell keys apart.
      const key = `${String(nextKey++).padStart(4, "0")}-key`;
      sessions.set(key, title);
      const base = `/s/${key}`;
      json(
        response,
        201,
        "application/json",
        JSON.stringify({
          key,
          title,
          hls: `${base}/master.m3u8`,
          dash: `${base}/manifest.mpd`,
          progressive: `${base}/${title}.mp4`,
          expires_in_s: 60,
        }),
      );
    } else if (route === "GET /api/v1/sessions") {
      json(
        response,
        200,
        "application/json",
        JSON.stringify({
          sessions: [...sessions].map(([key, title]) => ({ key_hint: key.slice(0, 4), title })),
        }),
      );
    } else if ((found = /^DELETE \/api\/v1\/sessions\/([^/]+)$/.exec(route))) {
      response.writeHead(sessions.delete(found[1] ?? "") ? 204 : 404).end();
    } else if (route === "GET /api/v1/volume") {
      const members = [0, 1, 2, 3, 4].map((member) => ({
        member,
        state: "present",
        in_use: true,
        text: `member ${member} is in order`,
      }));
      json(
        response,
        200,
        "application/json",
        JSON.stringify({
          id: "0",
          writable: true,
          state: "ok",
          bytes: 64e9,
          free_bytes: 38.4e9,
          titles: titles.length,
          members,
        }),
      );
    } else if ((found = /^\/s\/([^/]+)\/(.+)$/.exec(path))) {
      if (sessions.has(found[1] ?? "")) media(request, response, found[2] ?? "");
      else problem(response, 404, "No such session", "The session ended.");
    } else if (path.startsWith("/files/")) {
      media(request, response, "film.mp4");
    } else {
      problem(response, 404, "No such address", `There is nothing at ${path}.`);
    }
  };

  const media = (request: IncomingMessage, response: ServerResponse, path: string) => {
    if (path === "master.m3u8") json(response, 200, types[".m3u8"] ?? "", master());
    else if (/^[45]\/text\.m3u8$/.test(path)) json(response, 200, types[".m3u8"] ?? "", textPlaylist());
    else if (path.endsWith(".mp4") && !path.includes("/"))
      file(request, response, join(options.media, "film.mp4"));
    else file(request, response, join(options.media, normalize(path)));
  };

  const upload = async (request: IncomingMessage, response: ServerResponse, query: URLSearchParams) => {
    const fileName = query.get("filename") ?? "film";
    let size = 0;
    const head: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) {
      if (size < 64) head.push(piece);
      size += piece.length;
    }
    const id = `job-${jobs.size + 1}`;
    const job: Job = {
      id,
      kind: "ingest",
      file_name: fileName,
      state: "ingesting",
      done_bytes: 0,
      total_bytes: size,
      rate_bytes_per_s: 0,
      eta_s: null,
      title_id: null,
      error: null,
      result: null,
      warnings: [],
    };
    jobs.set(id, job);
    response
      .writeHead(202, { "content-type": "application/json", location: `/api/v1/jobs/${id}` })
      .end(JSON.stringify(job));
    if (Buffer.concat(head).subarray(0, 4).equals(Buffer.from("fail"))) {
      Object.assign(job, {
        state: "failed",
        error: `${fileName} is neither MP4, Matroska nor MPEG-TS: it begins with "fail".`,
      });
      return;
    }
    for (const part of [0.3, 0.6, 1]) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      Object.assign(job, { done_bytes: Math.round(size * part), rate_bytes_per_s: size, eta_s: 1 - part });
    }
    const slug = fileName.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    titles.unshift({
      ...(mockTitles()[0] as Title),
      id: slug,
      name: query.get("name") ?? fileName,
      added: new Date().toISOString(),
      bytes: size,
      poster: `/img/${slug}.svg`,
    });
    Object.assign(job, { state: "done", title_id: slug, eta_s: 0 });
  };

  const server: Server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) problem(response, 500, "The mock failed", String(error));
      else response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    sessions,
    titles,
    promises,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function master(): string {
  const lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"];
  // As Reel writes it: one group for each codec of sound, every rendition once for each group.
  for (const a of tracks.audio)
    lines.push(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="${a.group}",NAME="${a.name}",LANGUAGE="${a.language}",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="${a.track}/media.m3u8"`,
    );
  for (const s of tracks.subtitles)
    lines.push(
      `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="text",NAME="${s.name}",LANGUAGE="${s.language}",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,URI="${s.track}/text.m3u8"`,
    );
  for (const v of tracks.video) {
    for (const a of tracks.audio) {
      const codecs = `avc1.${v.height > 400 ? "64001f" : "64001e"},${a.codec}`;
      lines.push(
        `#EXT-X-STREAM-INF:BANDWIDTH=${v.bitrate_bps + 100_000},CODECS="${codecs}",RESOLUTION=${v.width}x${v.height},FRAME-RATE=24.000,AUDIO="${a.group}",SUBTITLES="text"`,
        `${v.track}/media.m3u8`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

function textPlaylist(): string {
  return `#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:${SECONDS}\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:${SECONDS},\ntext.vtt\n#EXT-X-ENDLIST\n`;
}

/** A whole file, or the one range that was asked for. */
function file(request: IncomingMessage, response: ServerResponse, path: string): void {
  if (!existsSync(path)) {
    problem(response, 404, "No such file", "There is nothing at this address.");
    return;
  }
  const { size } = statSync(path);
  const headers: Record<string, string | number> = {
    "content-type": types[extname(path)] ?? "application/octet-stream",
    "accept-ranges": "bytes",
  };
  if (path.endsWith(".html")) {
    response
      .writeHead(200, { ...headers, "content-security-policy": POLICY, "cache-control": "no-cache" })
      .end(readFileSync(path));
    return;
  }
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  const start = range ? Number(range[1]) : 0;
  const end = range?.[2] ? Math.min(Number(range[2]), size - 1) : size - 1;
  if (range) headers["content-range"] = `bytes ${start}-${end}/${size}`;
  response.writeHead(range ? 206 : 200, { ...headers, "content-length": end - start + 1 });
  if (request.method === "HEAD") response.end();
  else
    createReadStream(path, { start, end })
      .on("error", () => response.destroy())
      .pipe(response);
}

function json(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
}

function problem(response: ServerResponse, status: number, title: string, detail: string): void {
  json(
    response,
    status,
    "application/problem+json",
    JSON.stringify({ type: "about:blank", title, status, detail }),
  );
}

async function text(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

function card(path: string): string {
  const words = path.replace(/^\/img\/|\.svg$/g, "").replace(/-/g, " ");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360"><rect width="640" height="360" fill="#3b4a5a"/><text x="320" y="196" fill="#fff" font-family="sans-serif" font-size="40" text-anchor="middle">${words.slice(0, 24)}</text></svg>`;
}
