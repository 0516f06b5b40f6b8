import type { RefusalCount, SessionRow } from "../api/types.ts";
import { bitRate, bytes, clock, count } from "../format.ts";
import { titleUrl } from "../library/card.ts";
import { knownTitle } from "../library/store.ts";
import { h, setText } from "../ui/dom.ts";
import { rows } from "./bar.ts";
import { isIdle, refusalName, sessionHas } from "./words.ts";

const states = {
  playing: "Playing, reserved",
  waiting: "Starts soon, reserved",
  paused: "Paused, nothing reserved",
  displaced: "Jumped to where nothing could be reserved",
  delivered: "Sent to the end, nothing reserved",
  unpromised: "Nothing reserved",
} as const;

/** The open sessions: those that play first, those that are paused when asked for. */
export function sessionTable(): { element: HTMLElement; show(sessions: SessionRow[], total: number): void } {
  const filter = h("input", {
    type: "search",
    class: "text-field session-filter",
    placeholder: "Filter by title, client or key",
    "aria-label": "Filter sessions",
    autocomplete: "off",
    spellcheck: false,
  });
  const active = sessionGroup("Sessions");
  const idle = sessionGroup("Paused sessions");
  const idleWords = h("summary", {});
  const folded = h("details", { class: "idle-sessions", hidden: true }, idleWords, idle.element);
  const none = h("p", { class: "quiet-line" });
  const more = h("p", { class: "quiet-line", hidden: true });
  let known: { sessions: SessionRow[]; total: number } = { sessions: [], total: 0 };

  const draw = () => {
    const { sessions, total } = known;
    const query = filter.value.trim();
    const found = sessions.filter((session) =>
      sessionHas(session, knownTitle(session.title)?.name ?? "", query),
    );
    const playing = found.filter((session) => !isIdle(session));
    const others = found.filter(isIdle);
    filter.hidden = sessions.length <= FILTERED_MIN && query === "";
    active.show(playing);
    idle.show(others);
    folded.hidden = others.length === 0;
    setText(idleWords, `${count(others.length, "session")} paused or sent to the end, nothing reserved`);
    none.hidden = playing.length > 0;
    setText(none, noneWords(sessions.length, found.length));
    more.hidden = total <= sessions.length;
    setText(more, `and ${count(total - sessions.length, "session")} more`);
  };
  filter.addEventListener("input", () => {
    // What is looked for may be among those that are folded.
    if (filter.value.trim() !== "") folded.open = true;
    draw();
  });
  return {
    element: h("div", {}, filter, active.element, none, folded, more),
    show(sessions, total) {
      known = { sessions, total };
      draw();
    },
  };
}

/** A few sessions are seen at a glance. */
const FILTERED_MIN = 8;

function noneWords(open: number, found: number): string {
  if (open === 0) return "No session is open.";
  return found === 0 ? "No session is like that." : "No session plays now.";
}

function sessionGroup(caption: string): { element: HTMLElement; show(sessions: SessionRow[]): void } {
  const body = h("tbody", {});
  const words = ["Title", "State", "Class", "Rate", "At", "Sent", "Client", "Key"];
  const table = h(
    "table",
    { class: "grid-table sessions" },
    h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, ...words.map((word) => h("th", { scope: "col" }, word)))),
    body,
  );
  const element = h(
    "div",
    { class: "table-place", tabindex: 0, role: "group", "aria-label": caption },
    table,
  );
  const showRows = rows<SessionRow>(body, sessionRow);
  return {
    element,
    show(sessions) {
      element.hidden = sessions.length === 0;
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
