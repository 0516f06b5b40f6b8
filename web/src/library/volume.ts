import { getVolume } from "../api/client.ts";
import type { Volume } from "../api/types.ts";
import { count } from "../format.ts";
import { below } from "../root.ts";
import { h, wait } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

const WATCH_MS = 15_000;

/**
 * Reports the state of the disks, now and as long as the page is shown. Returns what asks for it at
 * once.
 */
export function watchVolume(tell: (volume: Volume) => void, signal: AbortSignal): () => void {
  // The list of titles reports a server that does not answer; this is only an addition to it.
  let asked = 0;
  let told = 0;
  const look = async () => {
    asked += 1;
    const mine = asked;
    const volume = await getVolume(signal).catch(() => undefined);
    // Answers may overtake each other; one that is older than what is shown says nothing.
    if (volume === undefined || mine < told) return;
    told = mine;
    tell(volume);
  };
  const watch = async () => {
    while (!signal.aborted) {
      if (document.visibilityState === "visible") await look();
      await wait(WATCH_MS, signal);
    }
  };
  // Ends by the signal's abort and in no other way.
  watch().catch(() => {});
  return () => void look();
}

/** Nothing while films can be added and removed. The reason is for the operator (dashboard). */
export function readOnlyNotice(volume: Pick<Volume, "read_only">): HTMLElement[] {
  if (volume.read_only === null) return [];
  const words = h("p", {}, "The ", h("a", { href: below("dashboard") }, "dashboard"), " says why.");
  return notice("Films play, and cannot be added or removed.", words);
}

/** Nothing while the volume can be written. */
export function readOnlyDetails(reason: string | null): HTMLElement[] {
  return reason === null ? [] : notice("Nothing is written to the volume.", h("p", {}, `${reason}.`));
}

function notice(words: string, details: HTMLElement): HTMLElement[] {
  const body = h("div", {}, h("strong", {}, words), details);
  return [h("div", { class: "notice", role: "status" }, icon("warning"), body)];
}

/** Nothing while all disks are in use. */
export function volumeNotice(volume: Pick<Volume, "state" | "members">): HTMLElement[] {
  // The dashboard reports a disk that was repaired or moved; nothing is to be done about it.
  const amiss = volume.members.filter((member) => !member.in_use);
  if (volume.state === "ok" && amiss.length === 0) return [];
  const named = amiss.map((member) => `member ${member.member}`).join(", ") || "it";
  const words =
    volume.state === "failed"
      ? "Some films cannot be read."
      : `${amiss.length} of ${count(volume.members.length, "disk")} ${amiss.length === 1 ? "is" : "are"} not in use. Every film still plays: the data is computed from the other disks.`;
  return [
    h(
      "div",
      { class: volume.state === "failed" ? "notice failed" : "notice", role: "status" },
      icon("warning"),
      h(
        "div",
        {},
        h("strong", {}, words),
        h("p", {}, "The ", h("a", { href: below("dashboard") }, "dashboard"), ` says more about ${named}.`),
      ),
    ),
  ];
}
