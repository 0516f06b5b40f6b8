import { listCasts, stopCast } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Cast } from "../api/types.ts";
import { count } from "../format.ts";
import { header } from "../library/header.ts";
import { home } from "../root.ts";
import { confirm } from "../ui/dialog.ts";
import { h, replaceIfOther, setText } from "../ui/dom.ts";
import { failure } from "../ui/failure.ts";
import { icon } from "../ui/icons.ts";
import { poll } from "../ui/poll.ts";
import { toast } from "../ui/toast.ts";
import { askCast } from "./add.ts";
import { type CastCard, castCard } from "./card.ts";
import { tallyWords } from "./words.ts";

/** What is sent to groups, and how it is received. */
export function castsPage(root: HTMLElement, signal: AbortSignal): void {
  document.title = "Casts · Reel";
  const tally = h("p", { class: "tally" });
  const trouble = h("div", {});
  const list = h("ul", { class: "casts" });
  const none = noneYet();
  let ask: () => void = () => {};
  root.append(
    bar(() => ask()),
    h(
      "main",
      { class: "casts-page" },
      h("div", { class: "library-bar" }, h("h1", {}, "Casts"), tally),
      trouble,
      none,
      list,
    ),
  );

  const cards = new Map<string, CastCard>();
  const cardOf = (cast: Cast): CastCard => {
    const kept = cards.get(cast.name);
    if (kept) return kept;
    const made = castCard((cast) => void stop(cast, () => ask()), signal);
    cards.set(cast.name, made);
    return made;
  };
  const show = (casts: Cast[]) => {
    trouble.replaceChildren();
    list.removeAttribute("data-old");
    none.hidden = casts.length > 0;
    setText(tally, casts.length > 0 ? tallyWords(casts) : "");
    for (const name of cards.keys()) {
      if (casts.some((cast) => cast.name === name)) continue;
      cards.get(name)?.end();
      cards.delete(name);
    }
    for (const [i, cast] of casts.entries()) {
      const { element, show } = cardOf(cast);
      show(cast);
      if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    }
  };
  ask = poll(
    listCasts,
    {
      heard: show,
      missed(problem, silent_s) {
        if (silent_s === undefined) return replaceIfOther(trouble, [failure(problem)]);
        list.setAttribute("data-old", "");
        setText(tally, `${problem.headline}; what is shown is ${count(silent_s, "second")} old`);
      },
    },
    signal,
  );
}

/** The way back, and the button that adds a cast. */
function bar(added: () => void): HTMLElement {
  const bar = header();
  bar.prepend(
    h(
      "a",
      { class: "icon-button back", href: home, "aria-label": "Back to the library", title: "Library" },
      icon("back"),
    ),
  );
  const add = h(
    "button",
    { type: "button", class: "button primary add-cast" },
    icon("plus"),
    h("span", {}, "Add cast"),
  );
  add.addEventListener("click", () => void askCast().then(added));
  bar.append(h("div", { class: "header-actions" }, add));
  return bar;
}

function noneYet(): HTMLElement {
  return h(
    "div",
    { class: "empty small casts-none", hidden: true },
    h("h2", {}, "Nothing is cast"),
    h(
      "p",
      {},
      "A cast sends a film to a multicast group: any number of receivers see it at the cost of one.",
    ),
  );
}

/** Asks first: receivers are told at once that it ends. */
async function stop(cast: Cast, done: () => void): Promise<void> {
  const sure =
    cast.state === "ended" ||
    (await confirm({
      heading: `Stop the cast “${cast.name}”?`,
      body: "It ends for all receivers. What is reserved for it is free again.",
      action: "Stop",
      danger: true,
    }));
  if (!sure) return;
  try {
    await stopCast(cast.name);
    if (cast.state !== "ended") toast(`Stopped “${cast.name}”`);
  } catch (error) {
    toast(asProblem(error).sentence);
  }
  done();
}
