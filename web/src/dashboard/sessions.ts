import type { RefusalCount, SessionRow } from "../api/types.ts";
import { bitRate, bytes, clock, count } from "../format.ts";
import { titleUrl } from "../library/card.ts";
import { knownTitle } from "../library/store.ts";
import { h, setText } from "../ui/dom.ts";
import { rows } from "./bar.ts";
import { refusalName } from "./words.ts";

const states = {
  playing: "Playing, reserved",
  waiting: "Starts soon, reserved",
  paused: "Paused, nothing reserved",
  delivered: "Sent to the end, nothing reserved",
  unpromised: "Nothing reserved",
} as const;

/** The open sessions and their reservations. */
export function sessionTable(): { element: HTMLElement; show(sessions: SessionRow[], total: number): void } {
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "grid-table sessions" },
    h("caption", { class: "visually-hidden" }, "Open sessions"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...["Title", "State", "Class", "Rate", "At", "Sent", "Client", "Key"].map((word) =>
          h("th", { scope: "col" }, word),
        ),
      ),
    ),
    body,
  );
  const none = h("p", { class: "quiet-line" }, "No session is open.");
  const more = h("p", { class: "quiet-line", hidden: true });
  const showRows = rows<SessionRow>(body, sessionRow);
  return {
    element: h(
      "div",
      { class: "table-place", tabindex: 0, role: "group", "aria-label": "Sessions" },
      table,
      none,
      more,
    ),
    show(sessions, total) {
      table.hidden = sessions.length === 0;
      none.hidden = sessions.length > 0;
      more.hidden = total <= sessions.length;
      setText(more, `and ${count(total - sessions.length, "session")} more`);
      showRows(sessions);
    },
  };
}

/** How often sessions were refused, by what there was too little of. */
export function refusalList(): {
  element: HTMLElement;
  show(refusals: RefusalCount[]): void;
} {
  const list = h("ul", { class: "refusals" });
  const none = h("p", { class: "quiet-line" }, "No session was refused since the server started.");
  const showRows = rows<RefusalCount>(list, () => {
    const name = h("span", {});
    const times = h("strong", {});
    return {
      element: h("li", {}, name, times),
      show(refusal) {
        setText(name, refusalName(refusal.resource));
        setText(times, refusal.count.toLocaleString("en"));
      },
    };
  });
  return {
    element: h("div", {}, list, none),
    show(refusals) {
      const some = refusals.filter(({ count: times }) => times > 0);
      list.hidden = some.length === 0;
      none.hidden = some.length > 0;
      showRows(some);
    },
  };
}

function sessionRow(): { element: HTMLElement; show(session: SessionRow): void } {
  const title = h("a", {});
  const cells = ["state", "class", "rate", "at", "sent", "client", "key"].map((name) =>
    h("td", { class: `cell-${name}` }),
  );
  const words = ["State", "Class", "Rate", "At", "Sent", "Client", "Key"];
  for (const [i, cell] of cells.entries()) cell.setAttribute("data-word", words[i] ?? "");
  const element = h("tr", {}, h("th", { scope: "row" }, title), ...cells);
  return {
    element,
    show(session) {
      const film = knownTitle(session.title);
      setText(title, film?.name ?? session.title);
      title.href = titleUrl(session.title);
      element.dataset.state = session.state;
      const texts = [
        states[session.state] ?? session.state,
        session.class,
        session.rate_bps > 0 ? bitRate(session.rate_bps) : "none",
        clock(session.position_s),
        bytes(session.sent_bytes),
        session.client,
        `${session.key_hint}…`,
      ];
      for (const [i, cell] of cells.entries()) setText(cell, texts[i] ?? "");
    },
  };
}
