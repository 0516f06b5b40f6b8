import { h } from "./dom.ts";
import { type IconName, icon } from "./icons.ts";

export interface MenuItem {
  label: string;
  /** Shown fainter, at the end of the line. */
  hint?: string;
  icon?: IconName;
  /** Given: the item is one of a choice. */
  checked?: boolean;
  danger?: boolean;
  /** Given: the item is a link. */
  href?: string;
  download?: boolean;
  run?: () => void;
}

/** So that a second press on the button that opened a menu closes it. */
let open: { button: HTMLElement; close: (refocus: boolean) => void } | undefined;

/**
 * Opens a menu at `button`, inside `host` (which must be the full-screen element when there is
 * one).
 */
export function toggleMenu(button: HTMLElement, host: HTMLElement, heading: string, items: MenuItem[]): void {
  const wasMine = open?.button === button;
  open?.close(wasMine);
  if (wasMine) return;

  const ends = new AbortController();
  const rows = items.map((item) => row(item, (byKey) => close(byKey)));
  const menu = h(
    "div",
    { class: "menu", role: "menu", "aria-label": heading },
    h("div", { class: "menu-heading", "aria-hidden": "true" }, heading),
    ...rows,
  );
  const shade = h("div", { class: "menu-shade" });

  function close(refocus: boolean) {
    if (open?.button !== button) return;
    open = undefined;
    ends.abort();
    menu.remove();
    shade.remove();
    button.setAttribute("aria-expanded", "false");
    host.removeAttribute("data-menu-open");
    if (refocus) button.focus({ preventScroll: true });
  }

  open = { button, close };
  button.setAttribute("aria-expanded", "true");
  host.setAttribute("data-menu-open", "");
  host.append(shade, menu);
  place(menu, button);

  const { signal } = ends;
  menu.addEventListener("keydown", (event) => keys(event, rows, close), { signal });
  shade.addEventListener(
    "pointerdown",
    (event) => {
      event.preventDefault();
      close(false);
    },
    { signal },
  );
  window.addEventListener("resize", () => close(false), { signal });
  window.addEventListener("scroll", () => close(false), { signal, passive: true });
  const first = rows.find((r) => r.getAttribute("aria-checked") === "true") ?? rows[0];
  first?.focus({ preventScroll: true });
  first?.scrollIntoView({ block: "nearest" });
}

export function closeMenu(): void {
  open?.close(false);
}

function row(item: MenuItem, close: (byKey: boolean) => void): HTMLElement {
  const choice = item.checked !== undefined;
  const attributes = {
    class: item.danger ? "menu-item danger" : "menu-item",
    role: choice ? "menuitemradio" : "menuitem",
    "aria-checked": choice ? String(item.checked) : undefined,
    tabindex: -1,
  };
  const content = [
    choice
      ? h("span", { class: "menu-tick" }, item.checked ? icon("check") : null)
      : item.icon
        ? h("span", { class: "menu-tick" }, icon(item.icon))
        : null,
    h("span", { class: "menu-label" }, item.label),
    item.hint ? h("span", { class: "menu-hint" }, item.hint) : null,
  ];
  const element: HTMLElement = item.href
    ? h("a", { ...attributes, href: item.href, download: item.download }, ...content)
    : h("button", { ...attributes, type: "button" }, ...content);
  element.addEventListener("click", (event) => {
    // After a click the keys belong to the page again, not to the button that opened the menu.
    close(event.detail === 0);
    item.run?.();
  });
  return element;
}

function keys(event: KeyboardEvent, rows: HTMLElement[], close: (refocus: boolean) => void): void {
  event.stopPropagation();
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    rows[(to + rows.length) % rows.length]?.focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    close(true);
  }
}

/**
 * Above or below the button, whichever has room; narrow windows show the menu as a sheet, by style
 * alone.
 */
function place(menu: HTMLElement, button: HTMLElement): void {
  const at = button.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  const margin = 8;
  const left = Math.min(Math.max(margin, at.right - size.width), window.innerWidth - size.width - margin);
  const above = at.top - size.height - margin;
  const below = at.bottom + margin;
  const fitsBelow = below + size.height + margin <= window.innerHeight;
  const top =
    fitsBelow && (above < margin || at.top < window.innerHeight / 2) ? below : Math.max(margin, above);
  menu.style.setProperty("--menu-left", `${left}px`);
  menu.style.setProperty("--menu-top", `${top}px`);
}
