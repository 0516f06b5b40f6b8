import { getJob, jobLocation, listJobs } from "../api/client.ts";
import { asProblem, Problem } from "../api/problem.ts";
import type { Job } from "../api/types.ts";
import { nameFromFile } from "../format.ts";
import { knownTitles, refreshTitles } from "../library/store.ts";
import { wait } from "../ui/dom.ts";
import { askAgain, askRenditions } from "./ask.ts";
import { filesOf, planOf, type Upload } from "./plan.ts";
import { RateMeter } from "./rate.ts";
import { send } from "./send.ts";

/**
 * Everything on its way into the volume: files sent from here, one at a time, and jobs that began
 * elsewhere. It does not belong to a page, so that an upload continues while a title is played.
 */
export interface Item {
  readonly id: number;
  name: string;
  total_bytes: number;
  done_bytes: number;
  state: "waiting" | "sending" | "storing" | "done" | "failed";
  rate_bytes_per_s: number | undefined;
  left_s: number | undefined;
  title_id: string | undefined;
  problem: Problem | undefined;
  warnings: string[];
  /** Stops it; only while this page is sending it. */
  cancel: (() => void) | undefined;
}

const POLL_MS = 600;
const WATCH_MS = 8000;

const items: Item[] = [];
const jobIds = new Set<string>();
const listeners = new Set<(items: readonly Item[]) => void>();
let nextId = 1;
let sending = false;
interface Pending {
  item: Item;
  files: File[];
  replaces: string | null;
  ends: AbortController;
}
const pending: Pending[] = [];

export function onItems(listener: (items: readonly Item[]) => void): void {
  listeners.add(listener);
  listener(items);
}

/** Sends files that were chosen together, after questions about them. */
export async function addFiles(files: Iterable<File>): Promise<void> {
  const { uploads, strays } = planOf([...files]);
  for (const file of strays) refuse(file);
  const wanted = await askRenditions(uploads);
  if (wanted.length > 0) await refreshTitles().catch(() => {});
  for (const upload of wanted) {
    const replaces = await askAgain(upload, knownTitles() ?? []);
    if (replaces !== undefined) enqueue(upload, replaces);
  }
}

/** Subtitles alone are no title. */
function refuse(file: File): void {
  const item = newItem(file.name, file.size);
  items.push(item);
  const detail = "Choose them together with their film. A title that is here already can then be replaced.";
  fail(item, new Problem(0, { title: "Subtitles without their film", detail }));
}

function enqueue(upload: Upload, replaces: string | null): void {
  const files = filesOf(upload);
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const ends = new AbortController();
  const item = newItem(nameFromFile(`${upload.name}.film`), size);
  item.cancel = () => ends.abort();
  ends.signal.addEventListener("abort", () => dismiss(item));
  pending.push({ item, files, replaces, ends });
  items.push(item);
  tell();
  void sendNext();
}

export function dismiss(item: Item): void {
  const at = items.indexOf(item);
  if (at >= 0) items.splice(at, 1);
  tell();
}

/**
 * Follows jobs that began elsewhere (another browser, the watched folder), as long as the page is
 * shown.
 */
export async function watchJobs(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (document.visibilityState === "visible") {
      try {
        for (const job of await listJobs(signal)) adopt(job);
      } catch {
        // The library page reports a server that does not answer.
      }
    }
    await wait(WATCH_MS, signal);
  }
}

async function sendNext(): Promise<void> {
  if (sending) return;
  sending = true;
  for (let next = pending.shift(); next; next = pending.shift()) {
    if (!next.ends.signal.aborted) await sendOne(next);
  }
  sending = false;
}

async function sendOne({ item, files, replaces, ends: { signal } }: Pending): Promise<void> {
  const meter = new RateMeter();
  item.state = "sending";
  meter.sample(performance.now(), 0);
  tell();
  try {
    const { job, location } = await send(
      files,
      item.name,
      replaces,
      (sent) => {
        meter.sample(performance.now(), sent);
        item.done_bytes = Math.min(sent, item.total_bytes);
        item.rate_bytes_per_s = meter.bytesPerSecond();
        item.left_s = meter.secondsLeft(item.total_bytes);
        tell();
      },
      signal,
    );
    item.cancel = undefined;
    jobIds.add(job.id);
    take(item, job);
    // Not awaited: the next file may be sent while this one is being stored.
    void follow(item, location);
  } catch (error) {
    if (!signal.aborted) fail(item, asProblem(error));
  }
}

async function follow(item: Item, location: string): Promise<void> {
  const never = new AbortController().signal;
  let failures = 0;
  while (item.state === "storing") {
    await wait(POLL_MS, never);
    try {
      take(item, await getJob(location));
      failures = 0;
    } catch (error) {
      failures += 1;
      const problem = asProblem(error);
      // A job that is unknown will not come back; a server that restarts may.
      if (problem.status === 404 || failures > 20) fail(item, problem);
    }
  }
}

function adopt(job: Job): void {
  const id = job.id;
  // Work on the volume is shown by the dashboard.
  if (jobIds.has(id) || job.kind !== "ingest" || isOver(job)) return;
  // An upload of this page is a job of the server before the page knows its id.
  if (job.state === "receiving" && sending) return;
  jobIds.add(id);
  const item = newItem(nameFromFile(job.file_name), job.total_bytes ?? 0);
  items.push(item);
  take(item, job);
  void follow(item, jobLocation(job.id));
}

function take(item: Item, job: Job): void {
  item.state = !isOver(job) ? "storing" : job.state === "done" ? "done" : "failed";
  item.total_bytes = job.total_bytes || item.total_bytes;
  item.done_bytes = job.state === "done" ? item.total_bytes : job.done_bytes;
  item.rate_bytes_per_s = job.rate_bytes_per_s ?? undefined;
  item.left_s = job.eta_s ?? undefined;
  item.title_id = job.title_id ?? undefined;
  item.warnings = job.warnings ?? [];
  if (item.state === "failed")
    item.problem = new Problem(0, {
      title: job.state === "cancelled" ? "Cancelled" : "Not stored",
      detail: job.error ?? "The server gave no reason.",
    });
  if (job.state === "done") refreshTitles().catch(() => {});
  tell();
}

function isOver(job: Job): boolean {
  return job.state === "done" || job.state === "failed" || job.state === "cancelled";
}

function fail(item: Item, problem: Problem): void {
  item.state = "failed";
  item.problem = problem;
  item.cancel = undefined;
  tell();
}

function newItem(name: string, total_bytes: number): Item {
  return {
    id: nextId++,
    name,
    total_bytes,
    done_bytes: 0,
    state: "waiting",
    rate_bytes_per_s: undefined,
    left_s: undefined,
    title_id: undefined,
    problem: undefined,
    warnings: [],
    cancel: undefined,
  };
}

function tell(): void {
  for (const listener of listeners) listener(items);
}

window.addEventListener("beforeunload", (event) => {
  if (sending) event.preventDefault();
});
