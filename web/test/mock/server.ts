/**
 * Speaks Reel's web interface from memory, for tests of the pages and for looking at them. Not a
 * media server.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join, normalize } from "node:path";
import type { Title } from "../../src/api/types.ts";
import { file, json, page, problem, types } from "./answers.ts";
import { apiRoutes } from "./api.ts";
import { castRoutes, type MockCasts, mockCasts } from "./casts.ts";
import { type MockPromises, mockPromises } from "./dashboard.ts";
import { master, textPlaylist } from "./playlists.ts";
import { AddedTexts } from "./texts.ts";
import { mockTitles } from "./titles.ts";
import { Uploads } from "./uploads.ts";

export interface Mock {
  url: string;
  /** Open sessions: key to title. */
  sessions: Map<string, string>;
  titles: Title[];
  promises: MockPromises;
  casts: MockCasts;
  close(): Promise<void>;
}

export interface MockOptions {
  /** The built pages. */
  dist: string;
  /** The title's files. */
  media: string;
  port?: number;
  empty?: boolean;
  /** A path without a slash at its end, below which all others are, as behind a proxy. */
  below?: string;
}

/**
 * An answer of the mock, for the methods and the paths that it matches; `parts` are the groups of
 * the path.
 */
export interface Route {
  method: string;
  path: RegExp;
  answer(exchange: Exchange, ...parts: string[]): void | Promise<void>;
}

export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
}

export async function startMock(options: MockOptions): Promise<Mock> {
  const titles = options.empty ? [] : mockTitles();
  const sessions = new Map<string, string>();
  const promises = mockPromises();
  const casts = mockCasts();
  const uploads = new Uploads(titles);
  const texts = new AddedTexts(titles);
  const routes = [
    ...pageRoutes(options.dist),
    ...mediaRoutes(options.media, { titles, sessions, texts }),
    ...castRoutes({ casts, titles }),
    ...apiRoutes({ titles, sessions, promises, uploads, texts }),
  ];
  const server = createServer((request, response) => {
    handle(routes, request, response, options.below).catch((error: unknown) => {
      if (!response.headersSent) problem(response, 500, "The mock failed", String(error));
      else response.destroy();
    });
  });
  const url = (await listen(server, options.port ?? 0)) + (options.below ?? "");
  return { url, sessions, titles, promises, casts, close: () => close(server) };
}

async function handle(
  routes: Route[],
  request: IncomingMessage,
  response: ServerResponse,
  below = "",
): Promise<void> {
  const asked = request.url ?? "/";
  if (!asked.startsWith(`${below}/`)) return problem(response, 404, "Not of Reel", `${asked} is elsewhere.`);
  const url = new URL(asked.slice(below.length), "http://mock");
  const path = decodeURIComponent(url.pathname);
  const method = request.method === "HEAD" ? "GET" : request.method;
  for (const route of routes) {
    const found = route.method === method && route.path.exec(path);
    if (found) return route.answer({ request, response, url }, ...found.slice(1));
  }
  problem(response, 404, "No such address", `There is nothing at ${path}.`);
}

function pageRoutes(dist: string): Route[] {
  return [
    {
      method: "GET",
      path: /^\/(?:dashboard|casts|title\/[^/]+)?$/,
      answer: ({ response, url }) => page(response, join(dist, "index.html"), url.pathname),
    },
    {
      method: "GET",
      path: /^(\/assets\/.*)$/,
      answer: ({ request, response }, path = "") => file(request, response, join(dist, normalize(path))),
    },
  ];
}

interface Playable {
  titles: Title[];
  sessions: Map<string, string>;
  texts: AddedTexts;
}

function mediaRoutes(directory: string, { titles, sessions, texts }: Playable): Route[] {
  return [
    {
      method: "GET",
      path: /^(\/img\/.*)$/,
      answer: ({ request, response }, path = "") => {
        const at = titles.findIndex((title) => title.poster === path);
        if (path.endsWith(".svg")) json(response, 200, "image/svg+xml", card(path));
        else if (at < 0) problem(response, 404, "No such picture", "There is no such title.");
        else file(request, response, join(directory, `poster-${at % 5}.jpg`));
      },
    },
    {
      method: "GET",
      path: /^\/s\/([^/]+)\/(.+)$/,
      answer: ({ request, response }, key = "", path = "") => {
        const title = sessions.get(key);
        const added = title === undefined ? undefined : texts.file(title, path);
        if (added !== undefined) json(response, 200, types[".vtt"] ?? "", added);
        else if (title !== undefined && path === "master.m3u8")
          json(response, 200, types[".m3u8"] ?? "", master(texts.tracks(title)));
        else if (title !== undefined) media(directory, request, response, path);
        else problem(response, 404, "No such session", "The session ended.");
      },
    },
    {
      method: "GET",
      path: /^\/files\//,
      answer: ({ request, response }) => media(directory, request, response, "film.mp4"),
    },
  ];
}

function media(directory: string, request: IncomingMessage, response: ServerResponse, path: string): void {
  if (/^\d+\/text\.m3u8$/.test(path)) json(response, 200, types[".m3u8"] ?? "", textPlaylist());
  else if (path.endsWith(".mp4") && !path.includes("/")) file(request, response, join(directory, "film.mp4"));
  else file(request, response, join(directory, normalize(path)));
}

function card(path: string): string {
  const words = path.replace(/^\/img\/|\.svg$/g, "").replace(/-/g, " ");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360"><rect width="640" height="360" fill="#3b4a5a"/><text x="320" y="196" fill="#fff" font-family="sans-serif" font-size="40" text-anchor="middle">${words.slice(0, 24)}</text></svg>`;
}

async function listen(server: Server, port: number): Promise<string> {
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
