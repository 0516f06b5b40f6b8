/** The JSON interface of the mock. */

import { createHash } from "node:crypto";
import type {
  Replacement,
  Session,
  SessionList,
  Title,
  TitleChange,
  TrafficClass,
  Volume,
  Watch,
} from "../../src/api/types.ts";
import { json, problem, text } from "./answers.ts";
import type { MockPromises } from "./dashboard.ts";
import type { Exchange, Route } from "./server.ts";
import type { AddedTexts } from "./texts.ts";
import type { Uploads } from "./uploads.ts";

export interface State {
  titles: Title[];
  sessions: Map<string, string>;
  promises: MockPromises;
  uploads: Uploads;
  texts: AddedTexts;
}

const JSON_TYPE = "application/json";

export function apiRoutes(state: State): Route[] {
  return [...titleRoutes(state), ...jobRoutes(state), ...dashboardRoutes(state), ...sessionRoutes(state)];
}

function titleRoutes({ titles, uploads, texts }: State): Route[] {
  const find = (id: string, { response }: Exchange) => {
    const at = titles.findIndex((title) => title.id === id);
    if (at < 0) problem(response, 404, "No such title", `There is no title "${id}".`);
    return at;
  };
  return [
    {
      method: "GET",
      path: /^\/api\/v1\/titles$/,
      answer: ({ request, response }) => {
        const body = JSON.stringify({ titles });
        const etag = `"${createHash("sha256").update(body).digest("hex").slice(0, 16)}"`;
        if (request.headers["if-none-match"] === etag) response.writeHead(304, { etag }).end();
        else
          response.writeHead(200, { "content-type": JSON_TYPE, "cache-control": "no-cache", etag }).end(body);
      },
    },
    {
      method: "GET",
      path: /^\/api\/v1\/titles\/([^/]+)$/,
      answer: (exchange, id = "") => {
        const at = find(id, exchange);
        if (at >= 0) json(exchange.response, 200, JSON_TYPE, JSON.stringify(titles[at]));
      },
    },
    {
      method: "PATCH",
      path: /^\/api\/v1\/titles\/([^/]+)$/,
      answer: async (exchange, id = "") => {
        const at = find(id, exchange);
        const title = titles[at];
        if (!title) return;
        const { name } = JSON.parse(await text(exchange.request)) as TitleChange;
        const why = "the new name has no visible character";
        if (name.trim() === "") return problem(exchange.response, 422, "A title needs a name", why);
        titles[at] = { ...title, name };
        json(exchange.response, 200, JSON_TYPE, JSON.stringify(titles[at]));
      },
    },
    {
      method: "DELETE",
      path: /^\/api\/v1\/titles\/([^/]+)$/,
      answer: (exchange, id = "") => {
        const at = find(id, exchange);
        if (at < 0) return;
        titles.splice(at, 1);
        exchange.response.writeHead(204).end();
      },
    },
    {
      method: "POST",
      path: /^\/api\/v1\/titles$/,
      answer: ({ request, response, url }) => uploads.take(request, response, url.searchParams),
    },
    {
      method: "POST",
      path: /^\/api\/v1\/titles\/([^/]+)\/forms\/ts$/,
      answer: (exchange, id = "") => {
        const title = titles[find(id, exchange)];
        if (title) json(exchange.response, 202, JSON_TYPE, JSON.stringify(uploads.stream(title)));
      },
    },
    {
      method: "POST",
      path: /^\/api\/v1\/titles\/([^/]+)\/subtitles$/,
      answer: ({ request, response, url }, id = "") => texts.take(request, response, id, url.searchParams),
    },
  ];
}

function jobRoutes({ promises, uploads }: State): Route[] {
  return [
    {
      method: "GET",
      path: /^\/api\/v1\/jobs$/,
      answer: ({ response }) =>
        json(response, 200, JSON_TYPE, JSON.stringify({ jobs: [...promises.jobs(), ...uploads.jobs()] })),
    },
    {
      method: "GET",
      path: /^\/api\/v1\/jobs\/([^/]+)$/,
      answer: ({ response }, id = "") => {
        const job = uploads.job(id);
        if (job) json(response, 200, JSON_TYPE, JSON.stringify(job));
        else problem(response, 404, "No such job", "Ended jobs are forgotten after a while.");
      },
    },
    {
      method: "DELETE",
      path: /^\/api\/v1\/jobs\/([^/]+)$/,
      answer: ({ response }, id = "") => {
        if (promises.cancel(id)) json(response, 202, JSON_TYPE, JSON.stringify(promises.jobs()[0]));
        else problem(response, 409, "The job is over", "Nothing was changed.");
      },
    },
    {
      method: "POST",
      path: /^\/api\/v1\/volume\/replace$/,
      answer: async ({ request, response }) => {
        const { member, path } = JSON.parse(await text(request)) as Replacement;
        const why = `${path} is not an absolute path`;
        if (!path.startsWith("/")) problem(response, 422, "This member cannot be replaced like this", why);
        else {
          const job = promises.start("replace", `member ${member}: ${path}`);
          json(response, 202, JSON_TYPE, JSON.stringify(job));
        }
      },
    },
    {
      method: "POST",
      path: /^\/api\/v1\/volume\/(scrub|rebuild)$/,
      answer: ({ response }, kind) => {
        const job = promises.start(kind as "scrub" | "rebuild");
        if (job) json(response, 202, JSON_TYPE, JSON.stringify(job));
        else problem(response, 409, "The volume is being worked on", "Wait for it, or end it.");
      },
    },
  ];
}

function dashboardRoutes({ titles, sessions, promises }: State): Route[] {
  return [
    {
      method: "GET",
      path: /^\/api\/v1\/dashboard$/,
      answer: ({ response }) => json(response, 200, JSON_TYPE, JSON.stringify(promises.dashboard(sessions))),
    },
    {
      method: "PUT",
      path: /^\/api\/v1\/classes$/,
      answer: async ({ request, response }) => {
        const wrong = promises.change(JSON.parse(await text(request)) as TrafficClass[]);
        if (wrong === undefined) json(response, 200, JSON_TYPE, JSON.stringify(promises.classes));
        else problem(response, 422, "These classes are not valid", wrong);
      },
    },
    {
      method: "GET",
      path: /^\/api\/v1\/watch$/,
      answer: ({ response }) => json(response, 200, JSON_TYPE, JSON.stringify(mockWatch)),
    },
    {
      method: "GET",
      path: /^\/api\/v1\/volume$/,
      answer: ({ response }) => json(response, 200, JSON_TYPE, JSON.stringify(mockVolume(titles.length))),
    },
  ];
}

function sessionRoutes({ sessions }: State): Route[] {
  let nextKey = 1;
  return [
    {
      method: "GET",
      path: /^\/api\/v1\/sessions$/,
      answer: ({ response }) => {
        const listed = [...sessions].map(([key, title]) => ({
          key_hint: key.slice(0, 4),
          title,
          expires_in_s: 60,
        }));
        json(response, 200, JSON_TYPE, JSON.stringify({ sessions: listed } satisfies SessionList));
      },
    },
    {
      method: "POST",
      path: /^\/api\/v1\/sessions$/,
      answer: async ({ request, response }) => {
        const { title } = JSON.parse(await text(request)) as { title: string };
        // As in the real server, the first four characters differ from key to key.
        const key = `${String(nextKey++).padStart(4, "0")}-key`;
        sessions.set(key, title);
        const base = `/s/${key}`;
        const session: Session = {
          key,
          title,
          class: "periodic",
          hls: `${base}/master.m3u8`,
          dash: `${base}/manifest.mpd`,
          progressive: `${base}/${title}.mp4`,
          expires_in_s: 60,
          starts_in_s: 0,
          start_bound_s: 2,
        };
        json(response, 201, JSON_TYPE, JSON.stringify(session));
      },
    },
    {
      method: "DELETE",
      path: /^\/api\/v1\/sessions\/([^/]+)$/,
      answer: ({ response }, key = "") => {
        response.writeHead(sessions.delete(key) ? 204 : 404).end();
      },
    },
  ];
}

const mockWatch: Watch = { directory: null, problem: null, files: [], more: 0 };

function mockVolume(titles: number): Volume {
  return {
    id: "0",
    writable: true,
    read_only: null,
    state: "ok",
    bytes: 64e9,
    free_bytes: 38.4e9,
    titles,
    geometry: {
      data_rows: 4,
      parity_rows: 1,
      symbol_bytes: 1408,
      row_symbols: 32,
      unit_rows: 6,
      unit_bytes: 270_336,
      stripe_bytes: 1_081_344,
    },
    members: [0, 1, 2, 3, 4].map((member) => ({
      member,
      path: `/srv/reel/disk${member}/member`,
      state: "present",
      in_use: true,
      activity: "active",
      text: `member ${member} is healthy`,
    })),
  };
}
