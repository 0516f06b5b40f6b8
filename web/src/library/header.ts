import { home } from "../root.ts";
import { type Child, h } from "../ui/dom.ts";
import { mark } from "../ui/icons.ts";

/** The bar on top of every page. */
export function header(...children: Child[]): HTMLElement {
  return h(
    "header",
    { class: "header" },
    h(
      "a",
      { class: "brand", href: home, "aria-label": "Reel, library" },
      mark(),
      h("span", { class: "brand-name" }, "Reel"),
    ),
    ...children,
  );
}
