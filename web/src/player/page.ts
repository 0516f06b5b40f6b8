import { getTitle } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Title } from "../api/types.ts";
import { header } from "../library/header.ts";
import { knownTitle } from "../library/store.ts";
import { home } from "../root.ts";
import { h } from "../ui/dom.ts";
import { failure } from "../ui/failure.ts";
import { icon } from "../ui/icons.ts";
import { details } from "./details.ts";
import { showHelp } from "./help.ts";
import { noSuchTitle } from "./messages.ts";
import { Player } from "./player.ts";

export function playerPage(root: HTMLElement, id: string, signal: AbortSignal): void {
  const main = h("main", { class: "watch" });
  const bar = header();
  bar.prepend(
    h(
      "a",
      { class: "icon-button back", href: home, "aria-label": "Back to the library", title: "Library" },
      icon("back"),
    ),
  );
  root.append(bar, main);
  document.title = "Reel";

  const show = (title: Title) => {
    document.title = `${title.name} · Reel`;
    const player = new Player(title, signal);
    const described = (title: Title): HTMLElement => {
      const about: HTMLElement = details(
        title,
        () => showHelp(player.stage.element),
        (changed) => {
          if (signal.aborted) return;
          about.replaceWith(described(changed));
          player.renew(changed);
        },
      );
      return about;
    };
    main.replaceChildren(h("div", { class: "stage-frame" }, player.stage.element), described(title));
    player.start();
    player.stage.element.focus({ preventScroll: true });
  };

  const known = knownTitle(id);
  if (known) {
    show(known);
    return;
  }
  const load = () => {
    main.replaceChildren(h("div", { class: "stage-frame" }, h("div", { class: "stage" })));
    getTitle(id, signal).then(show, (error: unknown) => {
      if (signal.aborted) return;
      const problem = asProblem(error);
      const library = h("a", { class: "button", href: home }, "Back to the library");
      if (problem.status === 404) {
        document.title = "Not found · Reel";
        main.replaceChildren(failure(noSuchTitle, library));
        return;
      }
      const again = h("button", { type: "button", class: "button" }, "Try again");
      again.addEventListener("click", load);
      main.replaceChildren(failure(problem, again, library));
    });
  };
  load();
}
