import type { ResourceUse, Sharing } from "../api/types.ts";
import { h, setText } from "../ui/dom.ts";
import { makeBar, rows } from "./bar.ts";
import { percent, resourceName, sharingWords, useWords } from "./words.ts";

/** How much of every resource is reserved, and how many sessions need no disks. */
export function resourceTable(): {
  element: HTMLElement;
  show(resources: ResourceUse[], sharing: Sharing): void;
} {
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "grid-table resources" },
    h("caption", { class: "visually-hidden" }, "What is promised of each resource"),
    h(
      "thead",
      {},
      h("tr", {}, ...["Resource", "Promised", "Now", "Peak"].map((word) => h("th", { scope: "col" }, word))),
    ),
    body,
  );
  const off = h(
    "p",
    { class: "quiet-line", hidden: true },
    "Admission is off: nothing is promised, and no session is refused.",
  );
  const shared = h("p", { class: "quiet-line", hidden: true });
  const showRows = rows<ResourceUse>(body, resourceRow);
  return {
    element: h("div", {}, table, off, shared),
    show(resources, sharing) {
      table.hidden = resources.length === 0;
      off.hidden = resources.length > 0;
      showRows(resources);
      const words = sharingWords(sharing);
      shared.hidden = words === "";
      setText(shared, words);
    },
  };
}

function resourceRow(): { element: HTMLElement; show(use: ResourceUse): void } {
  const name = h("th", { scope: "row" });
  const bar = makeBar();
  const words = h("td", { class: "figure" });
  const peak = h("td", { class: "figure peak" });
  return {
    element: h("tr", {}, name, h("td", { class: "bar-cell" }, bar.element), words, peak),
    show(use) {
      const now = percent(use.used, use.capacity);
      const most = percent(use.peak_used, use.capacity);
      setText(name, resourceName(use));
      bar.fill(now, use.capacity === null ? undefined : most);
      setText(words, useWords(use));
      setText(peak, use.capacity === null ? "" : `${most.toFixed(0)}%`);
    },
  };
}
