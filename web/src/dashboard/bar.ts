import { h } from "../ui/dom.ts";

/** A bar; the figures stand beside it as text. */
export function makeBar(): { element: HTMLElement; fill(percent: number, mark?: number): void } {
  const filled = h("span", { class: "bar-fill" });
  const marked = h("span", { class: "bar-mark", hidden: true });
  const element = h("span", { class: "bar", "aria-hidden": "true" }, filled, marked);
  return {
    element,
    fill(percent, mark) {
      element.style.setProperty("--fill-to", `${percent.toFixed(1)}%`);
      element.toggleAttribute("data-full", percent >= 99.5);
      marked.hidden = mark === undefined;
      if (mark !== undefined) element.style.setProperty("--mark-at", `${Math.min(100, mark).toFixed(1)}%`);
    },
  };
}

/**
 * Keeps as many rows as there are things. A row is made once, so that it does not lose the focus
 * every second.
 */
export function rows<T>(
  parent: HTMLElement,
  make: () => { element: HTMLElement; show(thing: T): void },
): (things: T[]) => void {
  const made: { element: HTMLElement; show(thing: T): void }[] = [];
  return (things) => {
    while (made.length > things.length) made.pop()?.element.remove();
    while (made.length < things.length) {
      const row = make();
      made.push(row);
      parent.append(row.element);
    }
    for (const [i, thing] of things.entries()) made[i]?.show(thing);
  };
}
