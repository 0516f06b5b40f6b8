import { Problem } from "./api/problem.ts";
import { castsPage } from "./casts/page.ts";
import { dashboardPage } from "./dashboard/page.ts";
import { header } from "./library/header.ts";
import { libraryPage } from "./library/page.ts";
import { home } from "./root.ts";
import { h } from "./ui/dom.ts";
import { failure } from "./ui/failure.ts";
import { closeMenu } from "./ui/menu.ts";

/**
 * Shows the page of the address and follows links without loading again. A page lives until its
 * signal aborts.
 */
export function startRouter(root: HTMLElement): void {
  let life = new AbortController();
  history.scrollRestoration = "manual";

  const show = async (scroll: number) => {
    life.abort();
    closeMenu();
    life = new AbortController();
    const { signal } = life;
    const page = h("div", { class: "page" });
    const path = pathBelow(location.pathname);
    const watched = /^title\/([^/]+)\/?$/.exec(path ?? "");
    const title = watched?.[1] && decoded(watched[1]);
    if (title) {
      // hls.js is most of the program and only needed here.
      const player = await import("./player/page.ts").catch(() => undefined);
      if (signal.aborted) return;
      if (player) player.playerPage(page, title, signal);
      else brokenPage(page);
    } else if (path === "") {
      libraryPage(page, signal);
    } else if (path === "dashboard") {
      dashboardPage(page, signal);
    } else if (path === "casts") {
      castsPage(page, signal);
    } else {
      lostPage(page);
    }
    root.replaceChildren(page);
    window.scrollTo(0, scroll);
  };

  const go = (url: URL) => {
    history.replaceState({ scroll: window.scrollY }, "");
    history.pushState({ scroll: 0 }, "", url);
    void show(0);
  };

  document.addEventListener("click", (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
    if (!link || link.hasAttribute("download") || link.target) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !isPage(url.pathname)) return;
    event.preventDefault();
    go(url);
  });
  window.addEventListener(
    "popstate",
    (event) => void show((event.state as { scroll?: number } | null)?.scroll ?? 0),
  );
  // The browser may keep the page and show it again later; a player must give its session back in
  // between.
  window.addEventListener("pagehide", () => life.abort());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) void show(0);
  });
  void show(0);
}

function isPage(pathname: string): boolean {
  const path = pathBelow(pathname);
  return path !== undefined && (["", "dashboard", "casts"].includes(path) || path.startsWith("title/"));
}

/** A path as it is below that of the library; nothing if it is not below it. */
function pathBelow(pathname: string): string | undefined {
  return pathname.startsWith(home) ? pathname.slice(home.length) : undefined;
}

/** The part of an address in plain text; nothing if it is none. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

/**
 * A part of the program was not loaded: the server does not answer, or has another version now,
 * with other parts.
 */
function brokenPage(page: HTMLElement): void {
  document.title = "Reel";
  const again = h("button", { type: "button", class: "button" }, "Load again");
  again.addEventListener("click", () => location.reload());
  const problem = new Problem(0, {
    title: "This page could not be loaded",
    detail: "Reel does not answer, or was updated since this page was opened.",
  });
  page.append(header(), h("main", { class: "watch" }, failure(problem, again)));
}

function lostPage(page: HTMLElement): void {
  document.title = "Not found · Reel";
  page.append(
    header(),
    h(
      "main",
      { class: "empty small" },
      h("h2", {}, "There is no such page"),
      h("p", {}, "The address may be mistyped."),
      h("a", { class: "button", href: home }, "Back to the library"),
    ),
  );
}
