import { h } from "../ui/dom.ts";
import { icon, mark } from "../ui/icons.ts";
import { pickFiles } from "../upload/drop.ts";

/** What a new server shows: the two ways of adding a film. */
export function emptyLibrary(): HTMLElement {
  const choose = h("button", { type: "button", class: "button primary" }, icon("upload"), "Choose a file");
  choose.addEventListener("click", pickFiles);
  return h(
    "section",
    { class: "empty" },
    h("div", { class: "empty-mark" }, mark()),
    h("h2", {}, "No films yet"),
    h("p", {}, "Films are stored unchanged, without loss of quality, and play as soon as they are stored."),
    h(
      "div",
      { class: "empty-ways" },
      h(
        "div",
        { class: "empty-way drop-target" },
        h("h3", {}, "From this browser"),
        h(
          "p",
          {},
          "Drop MP4, MOV, MKV, WebM or TS files anywhere on this page, with their subtitles if there are any.",
        ),
        choose,
      ),
      h(
        "div",
        { class: "empty-way" },
        h("h3", {}, "On the server"),
        h("p", {}, "Several versions of one film become one title, which adapts to each viewer:"),
        h(
          "pre",
          {},
          h(
            "code",
            {},
            'reel ingest VOLUME film.mkv\n\nreel ingest VOLUME --title "Film" \\\n  1080.mp4 720.mp4 480.mp4',
          ),
        ),
      ),
    ),
  );
}

export function nothingFound(query: string, clear: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "button" }, "Show all titles");
  button.addEventListener("click", clear);
  return h(
    "section",
    { class: "empty small" },
    h("h2", {}, `Nothing matches “${query.trim()}”`),
    h("p", {}, "Names, languages, codecs and sizes such as 1080p are searched."),
    button,
  );
}

/** The grid's shape while the list is on its way. */
export function skeleton(): HTMLElement {
  return h(
    "ul",
    { class: "grid skeleton", "aria-hidden": "true" },
    ...Array.from({ length: 8 }, () =>
      h("li", { class: "card" }, h("div", { class: "poster" }), h("div", { class: "skeleton-line" })),
    ),
  );
}
