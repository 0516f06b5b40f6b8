import { Problem, problemFrom, unreachable } from "./problem.ts";
import type { Dashboard, Job, Session, Title, TrafficClass, Volume, VolumeWork } from "./types.ts";

const API = "/api/v1";

/** A server that has not answered after so long is told of as one that does not answer. What it is asked to do may take longer than to say how things are. */
const ANSWER_MAX_MS = { get: 10_000, other: 30_000 };

export async function listTitles(signal?: AbortSignal): Promise<Title[]> {
  const answer = await ask<{ titles: Title[] }>("GET", "/titles", signal ? { signal } : {});
  return answer.titles;
}

export function getTitle(id: string, signal?: AbortSignal): Promise<Title> {
  return ask("GET", `/titles/${encodeURIComponent(id)}`, signal ? { signal } : {});
}

export async function removeTitle(id: string): Promise<void> {
  await ask("DELETE", `/titles/${encodeURIComponent(id)}`);
}

export async function listJobs(signal?: AbortSignal): Promise<Job[]> {
  const answer = await ask<{ jobs: Job[] }>("GET", "/jobs", signal ? { signal } : {});
  return answer.jobs;
}

export function getVolume(signal?: AbortSignal): Promise<Volume> {
  return ask("GET", "/volume", signal ? { signal } : {});
}

export function getDashboard(signal?: AbortSignal): Promise<Dashboard> {
  return ask("GET", "/dashboard", signal ? { signal } : {});
}

/** All classes at once; throws a Problem with status 422 when they do not add up. */
export function setClasses(classes: TrafficClass[]): Promise<TrafficClass[]> {
  return ask("PUT", "/classes", { body: JSON.stringify(classes) });
}

/** Begins work on the volume; throws a Problem with status 409 while other work goes on. */
export function startVolumeWork(work: "scrub" | "rebuild"): Promise<Job> {
  return ask("POST", `/volume/${work satisfies VolumeWork}`);
}

export async function cancelJob(id: string | number): Promise<void> {
  await ask("DELETE", jobLocation(id));
}

/** `location` is the job's own address, as the upload's answer gave it. */
export async function getJob(location: string): Promise<Job> {
  return ask("GET", location);
}

export function jobLocation(id: string | number): string {
  return `${API}/jobs/${encodeURIComponent(String(id))}`;
}

/** Opens a session: the server's promise to carry this film. Throws a Problem with status 503 when it cannot promise. */
export function openSession(title: string, signal?: AbortSignal): Promise<Session> {
  const body = JSON.stringify({ title });
  return ask("POST", "/sessions", signal ? { body, signal } : { body });
}

/** Gives the reservation back. Survives the page being closed; its outcome does not matter, the server expires idle sessions. */
export function closeSession(key: string): void {
  fetch(`${API}/sessions/${encodeURIComponent(key)}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

export function uploadUrl(fileName: string, name: string): string {
  return `${API}/titles?${new URLSearchParams({ filename: fileName, name })}`;
}

async function ask<T>(
  method: string,
  path: string,
  options: { body?: string; signal?: AbortSignal } = {},
): Promise<T> {
  const url = path.startsWith(API) ? path : API + path;
  const headers: Record<string, string> = { accept: "application/json" };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  const late = AbortSignal.timeout(method === "GET" ? ANSWER_MAX_MS.get : ANSWER_MAX_MS.other);
  const signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
  let response: Response;
  try {
    response = await fetch(url, { method, headers, body: options.body ?? null, signal });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw unreachable();
  }
  if (!response.ok) {
    const text = await response.text().catch(() => "");
    throw problemFrom(
      response.status,
      response.headers.get("content-type"),
      text,
      response.headers.get("retry-after"),
    );
  }
  if (response.status === 204) return undefined as T;
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (late.aborted) throw unreachable();
    throw new Problem(response.status, {
      title: "Unreadable answer",
      detail: `The server's answer to ${method} ${url} is not JSON.`,
    });
  }
}
