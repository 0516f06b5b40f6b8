import { removeTitle } from "../api/client.ts";
import { asProblem, type Problem } from "../api/problem.ts";
import type { Title } from "../api/types.ts";
import { bytes, count } from "../format.ts";
import { forgetPosition } from "../player/resume.ts";
import { below, home } from "../root.ts";
import { confirm } from "../ui/dialog.ts";
import { h, replaceIfOther, setText } from "../ui/dom.ts";
import { failure } from "../ui/failure.ts";
import { icon } from "../ui/icons.ts";
import { toast } from "../ui/toast.ts";
import { pickFiles } from "../upload/drop.ts";
import { card } from "./card.ts";
import { emptyLibrary, nothingFound, skeleton } from "./empty.ts";
import { isOrder, type Order, orders, select } from "./filter.ts";
import { header } from "./header.ts";
import { dropTitle, knownTitles, onTitles, refreshTitles } from "./store.ts";
import { readOnlyNotice, volumeNotice, watchVolume } from "./volume.ts";
import { followWatched, watchedNotice } from "./watched.ts";

/** How often a visible page asks for the list: titles also arrive by command and watched folder. */
const REFRESH_MS = 10_000;

export function libraryPage(root: HTMLElement, signal: AbortSignal): void {
  document.title = "Reel";
  const asked = new URLSearchParams(location.search);
  let query = asked.get("q") ?? "";
  let order: Order = isOrder(asked.get("sort")) ? (asked.get("sort") as Order) : "added";

  const search = h("input", {
    type: "search",
    class: "search-input",
    placeholder: "Search",
    "aria-label": "Search titles",
    value: query,
    autocomplete: "off",
    spellcheck: false,
    enterkeyhint: "search",
  });
  const sort = h(
    "select",
    { class: "select", "aria-label": "Sort by" },
    ...Object.entries(orders).map(([value, label]) =>
      h("option", { value, selected: value === order }, label),
    ),
  );
  const tallyCount = h("span", {});
  const tallySize = h("span", { class: "tally-size" });
  const tally = h("p", { class: "tally", role: "status" }, tallyCount, tallySize);
  const content = h("div", { class: "library-content" });
  const add = h(
    "button",
    { type: "button", class: "button primary add-film", "aria-label": "Add film" },
    icon("plus"),
    h("span", {}, "Add film"),
  );
  add.addEventListener("click", pickFiles);
  const promises = h(
    "a",
    {
      class: "icon-button to-dashboard",
      href: below("dashboard"),
      "aria-label": "Dashboard",
      title: "Dashboard",
    },
    icon("speed"),
  );

  const casts = h(
    "a",
    { class: "icon-button to-casts", href: below("casts"), "aria-label": "Casts", title: "Casts" },
    icon("cast"),
  );

  root.append(
    header(
      h(
        "label",
        { class: "search" },
        icon("search"),
        search,
        h("kbd", { class: "search-key", "aria-hidden": "true" }, "/"),
      ),
      h("div", { class: "header-actions" }, casts, promises, add),
    ),
    h(
      "main",
      { class: "library" },
      h(
        "div",
        { class: "library-bar" },
        h("h1", {}, "Library"),
        tally,
        h("label", { class: "sort" }, h("span", { class: "sort-word" }, "Sort"), sort),
      ),
      content,
    ),
  );

  let free = "";
  const shownBefore = knownTitles();
  let shownBytes = shownBefore && sizeOf(shownBefore);
  const notice = h("div", { class: "notice-place" });
  const watchedPlace = h("div", { class: "notice-place" });
  content.before(notice, watchedPlace);
  followWatched((watch) => replaceIfOther(watchedPlace, watchedNotice(watch)), signal);
  const askVolume = watchVolume((volume) => {
    free = `${bytes(volume.free_bytes)} free`;
    add.hidden = !volume.writable;
    replaceIfOther(notice, [...readOnlyNotice(volume), ...volumeNotice(volume)]);
    const titles = knownTitles();
    if (titles && titles.length > 0) tell(titles);
  }, signal);

  const cards = new Map<string, { title: Title; element: HTMLLIElement }>();
  const grid = h("ul", { class: "grid" });

  const cardOf = (title: Title): HTMLLIElement => {
    const kept = cards.get(title.id);
    if (kept?.title === title) return kept.element;
    const element = card(title, (gone) => void remove(gone));
    cards.set(title.id, { title, element });
    return element;
  };

  const show = (titles: Title[]) => {
    const found = select(titles, query, order);
    root.toggleAttribute("data-empty", titles.length === 0);
    if (titles.length === 0) {
      clearTally();
      replaceIfOther(content, [emptyLibrary()]);
      return;
    }
    tell(titles, found.length);
    if (found.length === 0) {
      replaceIfOther(content, [nothingFound(query, () => setQuery(""))]);
      return;
    }
    // A card that is removed loses the focus, even if it is put back at once: only what differs is
    // touched.
    const wanted = new Set<Element>(found.map(cardOf));
    for (const element of [...grid.children]) if (!wanted.has(element)) element.remove();
    let next = grid.firstElementChild;
    for (const element of wanted) {
      if (element === next) next = next.nextElementSibling;
      else grid.insertBefore(element, next);
    }
    if (grid.parentElement !== content) content.replaceChildren(grid);
  };

  /** How many titles there are, of how many bytes. */
  const tell = (titles: Title[], found = select(titles, query, order).length) => {
    const all = count(titles.length, "title");
    const size = bytes(sizeOf(titles));
    setText(tallyCount, query.trim() ? `${found} of ${all}` : all);
    setText(tallySize, query.trim() ? "" : ["", size, free].filter((part, i) => i === 0 || part).join(" · "));
  };

  const refine = () => {
    const state = new URLSearchParams();
    if (query.trim()) state.set("q", query.trim());
    if (order !== "added") state.set("sort", order);
    history.replaceState(history.state, "", state.size > 0 ? `${home}?${state}` : home);
    const titles = knownTitles();
    if (titles) show(titles);
  };

  const setQuery = (text: string) => {
    query = text;
    search.value = text;
    search.focus();
    refine();
  };

  async function remove(title: Title): Promise<void> {
    const sure = await confirm({
      heading: `Delete “${title.name}”?`,
      body: `This frees ${bytes(title.bytes)} of the volume and cannot be undone. Sessions that play it now can finish.`,
      action: "Delete",
      danger: true,
    });
    if (!sure) return;
    try {
      await removeTitle(title.id);
      forgetPosition(title.id);
      dropTitle(title.id);
      toast(`Deleted “${title.name}”`);
    } catch (error) {
      const problem = asProblem(error);
      toast(`${problem.headline}. ${problem.detail}`);
      load();
    }
  }

  const clearTally = () => {
    setText(tallyCount, "");
    setText(tallySize, "");
  };

  const fail = (problem: Problem) => {
    clearTally();
    const again = h("button", { type: "button", class: "button" }, "Try again");
    again.addEventListener("click", () => {
      content.replaceChildren(skeleton());
      load();
    });
    replaceIfOther(content, [failure(problem, again)]);
  };

  const load = () => {
    refreshTitles(signal).then(
      () => {
        const titles = knownTitles();
        if (titles && content.firstElementChild?.matches(".skeleton, .failure")) show(titles);
      },
      (error: unknown) => {
        // A list that is shown stays; only an empty page gives way to the error.
        if (!signal.aborted && !knownTitles()) fail(asProblem(error));
      },
    );
  };

  search.addEventListener("input", () => {
    query = search.value;
    refine();
  });
  sort.addEventListener("change", () => {
    order = sort.value as Order;
    refine();
  });
  document.addEventListener(
    "keydown",
    (event) => {
      const typing =
        event.target instanceof Element && event.target.closest("input, select, textarea, dialog") !== null;
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        search.focus();
        search.select();
      } else if (event.key === "Escape" && event.target === search && query !== "") {
        event.preventDefault();
        setQuery("");
      }
    },
    { signal },
  );

  onTitles((titles) => {
    show(titles);
    // A title that came, went or was replaced changes the free space.
    if (shownBytes !== undefined && sizeOf(titles) !== shownBytes) askVolume();
    shownBytes = sizeOf(titles);
  }, signal);
  const titles = knownTitles();
  if (titles) show(titles);
  else content.replaceChildren(skeleton());
  load();

  const timer = setInterval(() => {
    if (document.visibilityState === "visible") load();
  }, REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  document.addEventListener(
    "visibilitychange",
    () => {
      if (document.visibilityState === "visible") load();
    },
    { signal },
  );
}

/** The bytes of all these titles. */
function sizeOf(titles: Title[]): number {
  return titles.reduce((sum, title) => sum + title.bytes, 0);
}
