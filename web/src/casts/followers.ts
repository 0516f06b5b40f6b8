/** The films that follow the first one of a cast. */

import type { Title } from "../api/types.ts";
import { h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

export interface Followers {
  element: HTMLElement;
  /** Their ids, in order. */
  ids(): string[];
}

/** A list to which films are added one by one; only those that can be cast are offered. */
export function followerFields(titles: Title[]): Followers {
  const chosen: Title[] = [];
  const list = h("ol", { class: "cast-followers" });
  const more = h(
    "select",
    { class: "select", "aria-label": "Film that follows" },
    h("option", { value: "" }, "Add a film…"),
    ...titles.map(({ id, name }) => h("option", { value: id }, name)),
  );
  const show = () => {
    const rows = chosen.map((title, place) => {
      const remove = h(
        "button",
        { type: "button", class: "button quiet small", "aria-label": `Leave out ${title.name}` },
        icon("close"),
      );
      remove.addEventListener("click", () => {
        chosen.splice(place, 1);
        show();
      });
      return h("li", {}, h("span", {}, title.name), remove);
    });
    list.replaceChildren(...rows);
  };
  more.addEventListener("change", () => {
    const title = titles.find(({ id }) => id === more.value);
    more.value = "";
    if (title) chosen.push(title);
    show();
  });
  const element = h("div", { class: "field" }, h("span", {}, "Then"), list, more);
  return { element, ids: () => chosen.map(({ id }) => id) };
}
