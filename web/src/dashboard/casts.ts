import type { DashboardCasts } from "../api/types.ts";
import { bitRate, count } from "../format.ts";
import { below } from "../root.ts";
import { h, setText } from "../ui/dom.ts";

/** What is sent to groups, in short. The panel is hidden while there is nothing to say. */
export function castSummary(panel: (content: HTMLElement) => HTMLElement): {
  element: HTMLElement;
  show(casts: DashboardCasts): void;
} {
  const words = h("a", { class: "casts-words", href: below("casts") });
  const amiss = h("p", { class: "casts-amiss", hidden: true });
  const element = panel(h("div", {}, words, amiss));
  element.hidden = true;
  return {
    element,
    show(casts) {
      const faults = castFaults(casts);
      element.hidden = casts.on_air === 0 && faults === "";
      setText(words, castsInWords(casts));
      amiss.hidden = faults === "";
      setText(amiss, faults);
    },
  };
}

/** "2 casts on the air, 30 Mb/s with FEC" */
export function castsInWords({ on_air, rate_bps }: DashboardCasts): string {
  if (on_air === 0) return "No cast is on the air";
  return `${count(on_air, "cast")} on the air, ${bitRate(rate_bps)} with FEC`;
}

/** What is wrong with them. */
export function castFaults({ waiting, late_packets, lost_packets }: DashboardCasts): string {
  return [
    waiting > 0 ? `${count(waiting, "cast")} waiting for room` : "",
    late_packets > 0 ? `${count(late_packets, "packet")} late` : "",
    lost_packets > 0 ? `${count(lost_packets, "packet")} not sent` : "",
  ]
    .filter(Boolean)
    .join(", ");
}
