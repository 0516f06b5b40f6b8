/** Answers of the mock: files, JSON, problems. */

import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname } from "node:path";

const POLICY =
  "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data:; frame-ancestors 'self'";
export const types: Record<string, string> = {
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

/** The page, whose files are where they were from every path. */
export function page(response: ServerResponse, index: string, path: string): void {
  const above = path.split("/").length - 2;
  const html = readFileSync(index, "utf8").replaceAll('="./', `="${"../".repeat(above) || "./"}`);
  const headers = { "content-security-policy": POLICY, "cache-control": "no-cache" };
  response.writeHead(200, { "content-type": types[".html"], ...headers }).end(html);
}

/** A whole file, or the one range that was asked for. */
export function file(request: IncomingMessage, response: ServerResponse, path: string): void {
  if (!existsSync(path)) {
    problem(response, 404, "No such file", "There is nothing at this address.");
    return;
  }
  const { size } = statSync(path);
  const headers: Record<string, string | number> = {
    "content-type": types[extname(path)] ?? "application/octet-stream",
    "accept-ranges": "bytes",
  };
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

export function json(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
}

export function problem(response: ServerResponse, status: number, title: string, detail: string): void {
  json(
    response,
    status,
    "application/problem+json",
    JSON.stringify({ type: "about:blank", title, status, detail }),
  );
}

export async function text(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}
