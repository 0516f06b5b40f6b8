import { getVolume } from "../api/client.ts";
import type { Volume } from "../api/types.ts";
import { count } from "../format.ts";
import { h, wait } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

const WATCH_MS = 15_000;

/** Tells how the disks are, now and while the page lives. */
export function watchVolume(tell: (volume: Volume) => void, signal: AbortSignal): void {
  const watch = async () => {
    while (!signal.aborted) {
      if (document.visibilityState === "visible") {
        // A server that does not answer is told of by the list of titles; this is only an addition to it.
        await getVolume(signal).then(tell, () => {});
      }
      await wait(WATCH_MS, signal);
    }
  };
  // Ends by the signal's abort and in no other way.
  watch().catch(() => {});
}

/** Nothing while all is well. */
export function volumeNotice(volume: Volume): HTMLElement[] {
  // One that was repaired or moved to another place is told of by the dashboard; nothing is to be done about it.
  const amiss = volume.members.filter((member) => !member.in_use);
  if (volume.state === "ok" && amiss.length === 0) return [];
  const words =
    volume.state === "failed"
      ? "Some films cannot be read."
      : `${amiss.length} of ${count(volume.members.length, "disk")} ${amiss.length === 1 ? "is" : "are"} not in order. Every film still plays, from the others and their parity.`;
  return [
    h(
      "div",
      { class: volume.state === "failed" ? "notice failed" : "notice", role: "status" },
      icon("warning"),
      h("div", {}, h("strong", {}, words), ...amiss.map((member) => h("p", {}, member.text))),
    ),
  ];
}
