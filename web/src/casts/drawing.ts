import { getCastSlots } from "../api/client.ts";
import type { Cast, CastSlots } from "../api/types.ts";
import { h, setText, wait } from "../ui/dom.ts";
import { slotAfter, slotsIn, slotsInWords } from "./geometry.ts";
import { slotsPicture } from "./picture.ts";

/** Slots that are known beyond what is shown, so that the next ones come in without a gap. */
const SLOTS_AHEAD = 6;
const ASK_MIN_MS = 1000;
const ASK_MAX_MS = 10_000;

/** The schedule of a cast, moving with time. Nothing is asked for while it is not seen. */
export function scheduleDrawing(signal: AbortSignal): { element: HTMLElement; show(cast: Cast): void } {
  const picture = slotsPicture();
  const words = h("p", { class: "quiet-line slots-words" });
  const element = h(
    "details",
    { class: "cast-schedule", open: true },
    h("summary", {}, "Schedule"),
    picture.element,
    words,
  );
  let name: string | undefined;
  let known: { slots: CastSlots; at_ms: number } | undefined;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const isSeen = follow(picture.frame, signal);

  const place = () => {
    const now = known && slotAfter(known.slots, performance.now() - known.at_ms);
    // Whole slots if motion is not wanted.
    if (now !== undefined) picture.place(calm.matches ? Math.floor(now) : now);
  };
  const draw = (slots: CastSlots) => {
    known = { slots, at_ms: performance.now() };
    picture.draw(slots);
    place();
    const { now_slot } = slots;
    picture.describe(now_slot === null ? "Nothing is sent yet" : slotsInWords(slots, now_slot));
    setText(words, legend(slots));
  };
  const ask = async () => {
    const isWanted = isSeen() && element.open && document.visibilityState === "visible";
    if (!isWanted || name === undefined) return ASK_MIN_MS / 2;
    try {
      const slots = await getCastSlots(name, slotsIn(picture.frame.clientWidth) + SLOTS_AHEAD, signal);
      draw(slots);
      return untilNext_ms(slots);
    } catch {
      // The list says what is wrong with the server or the cast.
      return ASK_MIN_MS;
    }
  };
  const run = async () => {
    while (!signal.aborted) await wait(await ask(), signal);
  };
  const move = () => {
    if (signal.aborted) return;
    if (isSeen() && !calm.matches) place();
    requestAnimationFrame(move);
  };
  // Ends by the signal's abort and in no other way.
  run().catch(() => {});
  requestAnimationFrame(move);
  return {
    element,
    show(cast) {
      const isSent = cast.schedule !== undefined && cast.state !== "ended";
      element.hidden = !isSent;
      name = isSent ? cast.name : undefined;
    },
  };
}

/** Whether an element is in the window. */
function follow(element: Element, signal: AbortSignal): () => boolean {
  let isSeen = false;
  const observer = new IntersectionObserver((entries) => {
    isSeen = entries.at(-1)?.isIntersecting ?? false;
  });
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
  return () => isSeen;
}

/** When the next slot begins; a client that joins then receives other cells. */
function untilNext_ms({ now_slot, slot_s }: CastSlots): number {
  if (now_slot === null) return ASK_MIN_MS;
  const next_ms = (Math.floor(now_slot) + 1 - now_slot) * slot_s * 1000;
  return Math.min(ASK_MAX_MS, Math.max(ASK_MIN_MS, next_ms + 20));
}

function legend({ client, segments }: CastSlots): string {
  return (
    "The line is now; numbers are segments, and rows are channels. A client that joins now receives the bright " +
    `cells from slot ${client.arrival_slot} on. It plays all ${segments} segments one slot behind, as the last row shows.`
  );
}
