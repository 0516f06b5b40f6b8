import type { Cast } from "../api/types.ts";
import { capitalized } from "../format.ts";
import { titleUrl } from "../library/card.ts";
import { knownTitle } from "../library/store.ts";
import { addressed } from "../root.ts";
import { copyField } from "../ui/copy.ts";
import { h, setText } from "../ui/dom.ts";
import { scheduleDrawing } from "./drawing.ts";
import { linesNote, linesOf } from "./lines.ts";
import {
  groupWords,
  nextWords,
  positionWords,
  rateWords,
  schemeWords,
  stageWords,
  waitWords,
} from "./words.ts";

/** A cast of the list. */
export interface CastCard {
  element: HTMLElement;
  show(cast: Cast): void;
  /** It is not listed any more. */
  end(): void;
}

/** A card that is kept while the cast is listed, so that what is unfolded stays so. */
export function castCard(stop: (cast: Cast) => void, signal: AbortSignal): CastCard {
  const link = h("a", {});
  const stage = h("span", { class: "cast-stage" });
  const button = h("button", { type: "button", class: "button small" }, "Stop…");
  const under = h("p", { class: "cast-under" });
  const reason = h("p", { class: "cast-reason", hidden: true });
  const { element: progress, show: showProgress } = progressLine();
  const { element: facts, show: showFacts } = factList();
  const life = new AbortController();
  const drawing = scheduleDrawing(AbortSignal.any([signal, life.signal]));
  const lines = h("div", { class: "cast-lines" });
  const receive = h("details", { class: "cast-receive" }, h("summary", {}, "How to receive it"), lines);
  let now: Cast | undefined;
  button.addEventListener("click", () => now && stop(now));
  let shownLines = "";
  const element = h(
    "li",
    { class: "panel cast" },
    h("div", { class: "cast-head" }, h("h2", {}, link), stage, button),
    under,
    reason,
    progress,
    facts,
    drawing.element,
    receive,
  );
  return {
    element,
    end() {
      life.abort();
      element.remove();
    },
    show(cast) {
      now = cast;
      element.dataset.state = cast.state;
      element.dataset.name = cast.name;
      setText(link, cast.title_name);
      link.href = titleUrl(cast.title);
      setText(stage, stageWords(cast));
      setText(button, cast.state === "ended" ? "Remove" : "Stop…");
      setText(under, [cast.name, groupWords(cast), schemeWords(cast)].join(" · "));
      const why = [cast.reason, cast.fault].filter(Boolean).join("; ");
      reason.hidden = why === "";
      setText(reason, capitalized(why));
      showProgress(cast);
      showFacts(cast);
      drawing.show(cast);
      receive.hidden = cast.state === "ended";
      // They stay selected and copied while nothing changes.
      const key = JSON.stringify([cast.sdp, cast.group, cast.fec, cast.schedule]);
      if (key !== shownLines) lines.replaceChildren(...lineRows(cast));
      shownLines = key;
    },
  };
}

/** How far the film has come. The position of a schedule is in the drawing of it. */
function progressLine(): { element: HTMLElement; show(cast: Cast): void } {
  const bar = h("progress", { class: "tray-bar", max: 1, "aria-label": "Position" });
  const words = h("span", { class: "cast-position" });
  const element = h("div", { class: "cast-progress" }, bar, words);
  return {
    element,
    show(cast) {
      element.hidden = cast.schedule !== undefined || cast.state === "ended";
      bar.value = cast.duration_s > 0 ? cast.position_s / cast.duration_s : 0;
      const next = nextWords(cast, (id) => knownTitle(id)?.name ?? id);
      setText(words, [positionWords(cast), next].filter(Boolean).join(", "));
    },
  };
}

function factList(): { element: HTMLElement; show(cast: Cast): void } {
  const element = h("dl", { class: "cast-facts" });
  const made = ["Rate", "Wait", "Channels", "Packets sent", "Late", "Not sent"].map((name) => {
    const value = h("dd", {});
    const row = h("div", {}, h("dt", {}, name), value);
    element.append(row);
    return { row, value };
  });
  return {
    element,
    show(cast) {
      const texts = [
        rateWords(cast),
        waitWords(cast),
        (cast.schedule?.channels ?? 1).toLocaleString("en"),
        (cast.packets + cast.fec_packets).toLocaleString("en"),
        cast.late_packets.toLocaleString("en"),
        cast.lost_packets.toLocaleString("en"),
      ];
      for (const [i, { row, value }] of made.entries()) {
        setText(value, texts[i] ?? "");
        const isAmiss = (i === 4 && cast.late_packets > 0) || (i === 5 && cast.lost_packets > 0);
        row.toggleAttribute("data-amiss", isAmiss);
      }
    },
  };
}

function lineRows(cast: Cast): HTMLElement[] {
  const rows = linesOf({ ...cast, sdp: addressed(cast.sdp) }, location.origin).map(
    ({ program, line, note }) => {
      const { field, button } = copyField(line, `Line for ${program}${note ? `, ${note}` : ""}`);
      return h(
        "div",
        { class: "cast-line" },
        h("span", { class: "cast-program" }, program, h("small", {}, note ?? "")),
        h("div", { class: "address" }, field, button),
      );
    },
  );
  const description = h(
    "a",
    { href: addressed(cast.sdp), target: "_blank", download: `${cast.name}.sdp` },
    "Description (SDP)",
  );
  return [h("p", { class: "quiet-line" }, linesNote(cast)), ...rows, h("p", {}, description)];
}
