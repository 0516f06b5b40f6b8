import { asProblem, type Problem } from "../api/problem.ts";
import { wait } from "./dom.ts";

const POLL_MS = 1000;

export interface Listener<T> {
  heard(answer: T): void;
  /** Nothing was heard; the last thing that was is so old. */
  missed(problem: Problem, silent_s: number | undefined): void;
}

/**
 * Asks once a second while the page is visible. The function that is returned asks at once, and
 * drops an answer that is on its way: it may be older than the change that it is called for.
 */
export function poll<T>(
  get: (signal: AbortSignal) => Promise<T>,
  listener: Listener<T>,
  signal: AbortSignal,
): () => void {
  let heard_ms: number | undefined;
  let asking = false;
  let outdated = false;
  const askOnce = async () => {
    outdated = false;
    try {
      const answer = await get(signal);
      if (outdated) return;
      heard_ms = performance.now();
      listener.heard(answer);
    } catch (error) {
      if (signal.aborted || outdated) return;
      const silent_s = heard_ms === undefined ? undefined : Math.round((performance.now() - heard_ms) / 1000);
      listener.missed(asProblem(error), silent_s);
    }
  };
  const ask = async () => {
    if (asking || document.visibilityState !== "visible") return;
    asking = true;
    do await askOnce();
    while (outdated && !signal.aborted);
    asking = false;
  };
  const run = async () => {
    while (!signal.aborted) {
      await ask();
      await wait(POLL_MS, signal);
    }
  };
  document.addEventListener("visibilitychange", () => void ask(), { signal });
  // Ends by the signal's abort and in no other way.
  run().catch(() => {});
  return () => {
    outdated = true;
    void ask();
  };
}
