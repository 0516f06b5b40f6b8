import { listTitles } from "../api/client.ts";
import type { Title } from "../api/types.ts";
import { same } from "./same.ts";

/** The titles of the server's last answer, kept between pages so that a page shows them at once. */
let known: Title[] | undefined;
/** The server's tag of that answer: the list is not sent again while it holds. */
let knownTag: string | undefined;
const listeners = new Set<(titles: Title[]) => void>();

export function knownTitles(): Title[] | undefined {
  return known;
}

export function knownTitle(id: string): Title | undefined {
  return known?.find((title) => title.id === id);
}

export function onTitles(listener: (titles: Title[]) => void, signal: AbortSignal): void {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

/** Asks the server again; listeners are called only for a real change. */
export async function refreshTitles(signal?: AbortSignal): Promise<void> {
  const answer = await listTitles(known && knownTag, signal);
  if (!answer) return;
  knownTag = answer.tag;
  const titles = keepUnchanged(known ?? [], answer.titles);
  if (known?.length === titles.length && titles.every((title, i) => title === known?.[i])) return;
  show(titles);
}

export function dropTitle(id: string): void {
  if (!known) return;
  // The list shown is not the one of the tag any more.
  knownTag = undefined;
  show(known.filter((title) => title.id !== id));
}

/** An unchanged title stays the same object, so that pages keep the elements they made for it. */
function keepUnchanged(before: Title[], now: Title[]): Title[] {
  const old = new Map(before.map((title) => [title.id, title]));
  return now.map((title) => {
    const kept = old.get(title.id);
    return kept && same(kept, title) ? kept : title;
  });
}

function show(titles: Title[]): void {
  known = titles;
  for (const listener of listeners) listener(titles);
}
