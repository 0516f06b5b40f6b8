import { listTitles } from "../api/client.ts";
import type { Title } from "../api/types.ts";

/** The titles as last heard, kept while moving between pages so that coming back shows them at once. */
let known: Title[] | undefined;
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

/** Asks the server again; listeners hear only a real change. */
export async function refreshTitles(signal?: AbortSignal): Promise<void> {
  const titles = await listTitles(signal);
  if (known && JSON.stringify(known) === JSON.stringify(titles)) return;
  // One that is as it was stays the same object, so that pages keep what they have made of it.
  const old = new Map(known?.map((title) => [JSON.stringify(title), title]));
  known = titles.map((title) => old.get(JSON.stringify(title)) ?? title);
  for (const listener of listeners) listener(known);
}

export function dropTitle(id: string): void {
  if (!known) return;
  known = known.filter((title) => title.id !== id);
  for (const listener of listeners) listener(known);
}
