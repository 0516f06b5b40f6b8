import { byteRate, bytes, count, timeLeft } from "../format.ts";
import { titleUrl } from "../library/card.ts";
import { h, setText } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";
import { dismiss, type Item, onItems } from "./queue.ts";

/** The panel in the corner that lists uploads and ingests. Hidden when there are none. */
export function installTray(): void {
  const list = h("ul", { class: "tray-list" });
  const heading = h("h2", { class: "tray-heading" });
  const status = h("p", { class: "visually-hidden", role: "status" });
  const tray = h(
    "section",
    { class: "tray", "aria-label": "Films being added", hidden: true },
    heading,
    list,
    status,
  );
  document.body.append(tray);
  const rows = new Map<Item, Row>();

  onItems((items) => {
    tray.hidden = items.length === 0;
    for (const [item, row] of rows) {
      if (items.includes(item)) continue;
      row.element.remove();
      rows.delete(item);
    }
    for (const item of items) {
      let row = rows.get(item);
      if (!row) {
        row = makeRow(item);
        rows.set(item, row);
        list.append(row.element);
      }
      row.update();
    }
    const active = items.filter((item) => item.state !== "done" && item.state !== "failed").length;
    const failed = items.some((item) => item.state === "failed");
    setText(
      heading,
      active > 0
        ? `Adding ${count(active, "film")}`
        : failed
          ? items.some((item) => item.state === "done")
            ? "Not everything was added"
            : "Not added"
          : "Added",
    );
    const ended = items.filter((item) => item.state === "done" || item.state === "failed").at(-1);
    setText(
      status,
      ended
        ? `${ended.name}: ${ended.state === "done" ? "ready" : (ended.problem?.headline ?? "failed")}`
        : "",
    );
  });
}

interface Row {
  element: HTMLLIElement;
  update(): void;
}

function makeRow(item: Item): Row {
  const name = h("span", { class: "tray-name" }, item.name);
  const watch = h("a", { class: "button small", hidden: true }, "Watch");
  const stop = h("button", { type: "button", class: "icon-button" }, icon("close"));
  const bar = h("progress", { class: "tray-bar", max: 1, value: 0, "aria-label": `${item.name}: progress` });
  const line = h("p", { class: "tray-line" });
  const element = h(
    "li",
    { class: "tray-item" },
    h("div", { class: "tray-top" }, name, watch, stop),
    bar,
    line,
  );
  stop.addEventListener("click", () => (item.cancel ? item.cancel() : dismiss(item)));
  watch.addEventListener("click", () => dismiss(item));

  return {
    element,
    update() {
      element.dataset.state = item.state;
      const over = item.state === "done" || item.state === "failed";
      bar.hidden = over;
      if (item.state === "waiting" || item.total_bytes === 0) bar.removeAttribute("value");
      else bar.value = item.done_bytes / item.total_bytes;
      stop.setAttribute("aria-label", item.cancel ? `Cancel ${item.name}` : `Dismiss ${item.name}`);
      // Closing the row of a job that is being stored would look like stopping it.
      stop.hidden = !item.cancel && !over;
      setText(line, describe(item));
      const ready = item.state === "done" && item.title_id !== undefined;
      watch.hidden = !ready;
      if (ready && item.title_id) watch.href = titleUrl(item.title_id);
    },
  };
}

function describe(item: Item): string {
  const amount = `${bytes(item.done_bytes)} of ${bytes(item.total_bytes)}`;
  const speed = [
    item.rate_bytes_per_s ? byteRate(item.rate_bytes_per_s) : "",
    item.left_s !== undefined ? timeLeft(item.left_s) : "",
  ];
  switch (item.state) {
    case "waiting":
      return `Waiting · ${bytes(item.total_bytes)}`;
    case "sending":
      // All bytes sent, no answer yet: the server is still writing what it buffered.
      if (item.done_bytes >= item.total_bytes) return "Sent, waiting for the server";
      return ["Sending", amount, ...speed].filter(Boolean).join(" · ");
    case "storing":
      return ["Storing", amount, ...speed].filter(Boolean).join(" · ");
    case "done":
      return ["Ready to watch", ...item.warnings].join(" · ");
    case "failed":
      return [item.problem?.headline, item.problem?.detail].filter(Boolean).join(": ");
  }
}
