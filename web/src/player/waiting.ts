import { setText } from "../ui/dom.ts";
import type { Stage } from "./stage.ts";
import type { StallMeter } from "./stalls.ts";

/** Shorter waits show nothing: a spinner that flashes disturbs and does not inform. */
const SHOW_AFTER_MS = 300;

/** A start that takes longer is explained. */
const LONG_START_MS = 3000;

export interface Waiting {
  /** The session starts after so many seconds: before that the server sends no pictures. */
  startsIn(seconds: number): void;
}

/** Shows that the picture stands still, and why; a stall is called a stall. */
export function installWaiting(stage: Stage, stalls: StallMeter, signal: AbortSignal): Waiting {
  const { video, waiting, element } = stage;
  const text = waiting.querySelector(".waiting-text") ?? waiting;
  let begun = false;
  let why: "start" | "seek" | "stall" | undefined;
  let since_ms = 0;
  let starts_ms = 0;
  let timer: ReturnType<typeof setInterval> | undefined;

  const draw = () => {
    const now = performance.now();
    waiting.hidden = now - since_ms < SHOW_AFTER_MS;
    const stalled_ms = stalls.current_ms(now);
    if (why === "stall" && stalled_ms !== undefined)
      setText(text, `Stalled for ${Math.max(1, Math.round(stalled_ms / 1000))} s, waiting for data`);
    else if (why === "start") setText(text, startText(starts_ms - now, now - since_ms));
    else setText(text, "");
  };
  const wait = (reason: "start" | "seek" | "stall") => {
    if (why === undefined) since_ms = performance.now();
    why = reason;
    if (reason === "stall") stalls.begin(performance.now());
    timer ??= setInterval(draw, 200);
  };
  const still = () => {
    stalls.end(performance.now());
    why = undefined;
    clearInterval(timer);
    timer = undefined;
    waiting.hidden = true;
  };
  const go = () => {
    still();
    element.removeAttribute("data-loading");
  };

  video.addEventListener(
    "loadstart",
    () => {
      begun = false;
      if (element.hasAttribute("data-loading")) wait("start");
    },
    { signal },
  );
  video.addEventListener(
    "seeking",
    () => {
      stalls.forget();
      wait(begun ? "seek" : "start");
    },
    { signal },
  );
  video.addEventListener(
    "waiting",
    () => {
      if (video.ended) return;
      wait(!begun ? "start" : video.seeking || why === "seek" ? "seek" : "stall");
    },
    { signal },
  );
  video.addEventListener(
    "playing",
    () => {
      begun = true;
      go();
    },
    { signal },
  );
  video.addEventListener(
    "timeupdate",
    () => {
      // Some browsers move on without saying "playing".
      if (why === "stall" && !video.seeking && video.readyState >= 3) go();
    },
    { signal },
  );
  for (const name of ["seeked", "canplay"] as const) {
    video.addEventListener(
      name,
      () => {
        if (video.readyState >= 3 || video.paused) go();
      },
      { signal },
    );
  }
  for (const name of ["pause", "ended"] as const)
    video.addEventListener(
      name,
      () => {
        if (!video.seeking) go();
      },
      { signal },
    );
  // The video is empty while another session is opened for the title: it still loads.
  video.addEventListener("emptied", still, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
  return {
    startsIn(seconds) {
      starts_ms = performance.now() + seconds * 1000;
    },
  };
}

/** Pure. */
export function startText(left_ms: number, waited_ms: number): string {
  if (left_ms > 0) return `Starts in ${Math.ceil(left_ms / 1000)} s`;
  return waited_ms > LONG_START_MS ? "Waiting for the first pictures" : "";
}
