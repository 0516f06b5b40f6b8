import { below } from "../root.ts";
import { Problem, problemFrom, unreachable } from "./problem.ts";
import type {
  AddedSubtitles,
  Cast,
  CastList,
  CastPlans,
  CastSlots,
  Dashboard,
  Job,
  JobKind,
  JobList,
  NewCast,
  Replacement,
  Session,
  Title,
  TitleChange,
  TitleList,
  TrafficClass,
  Volume,
  Watch,
} from "./types.ts";

const API = below("api/v1");

const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

/**
 * A server that has not answered after this time counts as one that does not answer. A change may
 * take longer than a report, and a file longer than both.
 */
const ANSWER_MAX_MS = { get: 10_000, other: 30_000, file: 600_000 };

/** The titles, and the server's tag of this state of the list. */
export interface TaggedTitles {
  titles: Title[];
  tag: string | undefined;
}

/** The titles; undefined if the list is still the one with this tag. */
export async function listTitles(tag?: string, signal?: AbortSignal): Promise<TaggedTitles | undefined> {
  const { titles, response } = await exchange("GET", "/titles", { tag, signal }, async (response) => {
    if (response.status === NOT_MODIFIED) return { titles: undefined, response };
    return { titles: ((await response.json()) as TitleList).titles, response };
  });
  return titles && { titles, tag: response.headers.get("etag") ?? undefined };
}

export function getTitle(id: string, signal?: AbortSignal): Promise<Title> {
  return ask("GET", `/titles/${encodeURIComponent(id)}`, { signal });
}

export async function removeTitle(id: string): Promise<void> {
  await ask("DELETE", `/titles/${encodeURIComponent(id)}`);
}

export async function renameTitle(id: string, name: string): Promise<void> {
  const body = JSON.stringify({ name } satisfies TitleChange);
  await ask<Title>("PATCH", `/titles/${encodeURIComponent(id)}`, { body });
}

/** Sends a file of subtitles for a title. What is not given, the server takes from its name. */
export function addSubtitles(
  id: string,
  file: File,
  given: { language: string; label: string },
): Promise<AddedSubtitles> {
  const query = new URLSearchParams({ filename: file.name });
  for (const [name, value] of Object.entries(given)) if (value.trim() !== "") query.set(name, value.trim());
  return ask("POST", `/titles/${encodeURIComponent(id)}/subtitles?${query}`, { file });
}

export async function listJobs(signal?: AbortSignal): Promise<Job[]> {
  const answer = await ask<JobList>("GET", "/jobs", { signal });
  return answer.jobs;
}

export function getWatch(signal?: AbortSignal): Promise<Watch> {
  return ask("GET", "/watch", { signal });
}

export function getVolume(signal?: AbortSignal): Promise<Volume> {
  return ask("GET", "/volume", { signal });
}

export function getDashboard(signal?: AbortSignal): Promise<Dashboard> {
  return ask("GET", "/dashboard", { signal });
}

/** All casts by name, those that have ended included. */
export async function listCasts(signal?: AbortSignal): Promise<Cast[]> {
  return (await ask<CastList>("GET", "/casts", { signal })).casts;
}

/** Has a title sent to a group; throws a Problem with the reason when it is refused. */
export function addCast(cast: NewCast): Promise<Cast> {
  return ask("POST", "/casts", { body: JSON.stringify(cast) });
}

/** What the channels of a cast send around the present slot. */
export function getCastSlots(name: string, slots: number, signal?: AbortSignal): Promise<CastSlots> {
  return ask("GET", `/casts/${encodeURIComponent(name)}/schedule?slots=${slots}`, { signal });
}

/** What it would cost to send a title; without a bound, to one group. */
export function planCast(
  title: string,
  bound: { wait_s: number } | { bandwidth_bps: number } | null,
  signal?: AbortSignal,
): Promise<CastPlans> {
  const query = new URLSearchParams({ title });
  for (const [name, value] of Object.entries(bound ?? {})) query.set(name, String(value));
  return ask("GET", `/cast-plans?${query}`, { signal });
}

/** Ends a cast, or removes one that has ended from the list. */
export async function stopCast(name: string): Promise<void> {
  await ask("DELETE", `/casts/${encodeURIComponent(name)}`);
}

/** Begins to make the transport stream of a title, which is what casts send. */
export function addStream(id: string): Promise<Job> {
  return ask("POST", `/titles/${encodeURIComponent(id)}/forms/ts`);
}

/** All classes at once; throws a Problem with status 422 when they do not add up. */
export function setClasses(classes: TrafficClass[]): Promise<TrafficClass[]> {
  return ask("PUT", "/classes", { body: JSON.stringify(classes) });
}

/** Begins a job on the volume; throws a Problem with status 409 while another is running. */
export function startVolumeJob(kind: "scrub" | "rebuild"): Promise<Job> {
  return ask("POST", `/volume/${kind satisfies JobKind}`);
}

/** Puts another file or device in the place of a member, and fills it. */
export function replaceMember(replacement: Replacement): Promise<Job> {
  return ask("POST", "/volume/replace", { body: JSON.stringify(replacement) });
}

export async function cancelJob(id: string): Promise<void> {
  await ask("DELETE", jobLocation(id));
}

/** `location` is the job's own address, as the upload's answer gave it. */
export async function getJob(location: string): Promise<Job> {
  return ask("GET", location);
}

export function jobLocation(id: string): string {
  return `${API}/jobs/${encodeURIComponent(id)}`;
}

/**
 * Opens a session: the title's bytes are reserved. Throws a Problem with status 503 when they
 * cannot be, and 429 when this client has its share.
 */
export function openSession(title: string, signal?: AbortSignal): Promise<Session> {
  const body = JSON.stringify({ title });
  return ask("POST", "/sessions", { body, signal });
}

/**
 * Gives the reservation back. Survives the page being closed; its outcome does not matter, the
 * server expires idle sessions.
 */
export function closeSession(key: string): void {
  fetch(`${API}/sessions/${encodeURIComponent(key)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

/**
 * Where files are sent as one title, one after the other. The title that is replaced keeps its
 * name.
 */
export function uploadUrl(
  files: readonly { name: string; size: number }[],
  name: string,
  replaces: string | null,
): string {
  const query = new URLSearchParams({ files: files.flatMap(({ name, size }) => [name, size]).join("/") });
  if (replaces === null) query.set("name", name);
  else query.set("replaces", replaces);
  return `${API}/titles?${query}`;
}

interface Options {
  body?: string | undefined;
  /** A body that is no JSON. */
  file?: File | undefined;
  signal?: AbortSignal | undefined;
  /** The entity tag of what is known already: the answer may be a 304. */
  tag?: string | undefined;
}

function ask<T>(method: string, path: string, options: Options = {}): Promise<T> {
  return exchange(method, path, options, async (response) =>
    response.status === NO_CONTENT ? (undefined as T) : ((await response.json()) as T),
  );
}

/**
 * Sends a request and reads its answer; anything but a success (or the 304 that was asked for) is a
 * Problem.
 */
async function exchange<T>(
  method: string,
  path: string,
  options: Options,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  const url = path.startsWith(API) ? path : API + path;
  const headers: Record<string, string> = { accept: "application/json" };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  if (options.file !== undefined) headers["content-type"] = "application/octet-stream";
  if (options.tag !== undefined) headers["if-none-match"] = options.tag;
  const kind = method === "GET" ? "get" : options.file ? "file" : "other";
  const late = AbortSignal.timeout(ANSWER_MAX_MS[kind]);
  const signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
  let response: Response;
  try {
    response = await fetch(url, { method, headers, body: options.body ?? options.file ?? null, signal });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw unreachable();
  }
  if (!response.ok && response.status !== NOT_MODIFIED) {
    const text = await response.text().catch(() => "");
    throw problemFrom(
      response.status,
      response.headers.get("content-type"),
      text,
      response.headers.get("retry-after"),
    );
  }
  try {
    return await read(response);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (late.aborted) throw unreachable();
    throw new Problem(response.status, {
      title: "Unreadable answer",
      detail: `The server's answer to ${method} ${url} is not JSON.`,
    });
  }
}
