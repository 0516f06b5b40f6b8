import { Problem } from "../api/problem.ts";
import { home } from "../root.ts";
import { h, setText } from "../ui/dom.ts";
import { failure } from "../ui/failure.ts";
import type { Failure } from "./engine.ts";
import { explainRefusal } from "./refusal.ts";
import type { Support } from "./support.ts";

export const noSuchTitle = new Problem(404, {
  title: "There is no such title",
  detail: "It was deleted, or the address is mistyped.",
});

/**
 * A refused title: why, and a countdown to the next try. `again` is called once: by the button with
 * true, by the clock with false.
 */
export function showRefusal(
  place: HTMLElement,
  problem: Problem,
  again: (isPressed: boolean) => void,
  signal: AbortSignal,
): void {
  const { heading, lines, retry_s } = explainRefusal(problem);
  const button = h("button", { type: "button", class: "button primary" }, "Try now");
  const count = h("p", { class: "refusal-count" });
  let left_s = retry_s;
  const timer = setInterval(() => {
    left_s -= 1;
    if (left_s <= 0) retry(false);
    else tell();
  }, 1000);
  const tell = () => setText(count, `Trying again in ${left_s} second${left_s === 1 ? "" : "s"}`);
  const retry = (isPressed: boolean) => {
    clearInterval(timer);
    signal.removeEventListener("abort", stop);
    place.hidden = true;
    again(isPressed);
  };
  const stop = () => clearInterval(timer);
  signal.addEventListener("abort", stop, { once: true });
  button.addEventListener("click", () => retry(true));
  tell();
  place.replaceChildren(
    h(
      "div",
      { class: "refusal", role: "alert" },
      h("h2", {}, heading),
      ...lines.map((line) => h("p", {}, line)),
    ),
    count,
    h(
      "div",
      { class: "failure-actions" },
      button,
      h("a", { class: "button", href: home }, "Back to the library"),
    ),
  );
  place.hidden = false;
}

/** A title that cannot continue: what happened and what can be done. */
export function showFailure(
  place: HTMLElement,
  problem: Problem,
  again?: (() => void) | undefined,
  otherwise?: HTMLElement,
): void {
  const retry = again && h("button", { type: "button", class: "button primary" }, "Try again");
  retry?.addEventListener("click", () => {
    place.hidden = true;
    again?.();
  });
  place.replaceChildren(
    failure(problem, retry, otherwise, h("a", { class: "button", href: home }, "Back to the library")),
  );
  place.hidden = false;
}

/** An engine's failure in words. */
export function failureWords(reason: Exclude<Failure, { reason: "refused" }>): Problem {
  switch (reason.reason) {
    case "unsupported":
      return unsupportedWords({ part: undefined, missing: [] });
    case "network":
      return new Problem(0, {
        title: "The film could not be loaded",
        detail: `${reason.detail} The position is kept.`.trim(),
      });
    case "session-gone":
      return new Problem(0, {
        title: "The session ended",
        detail: "The server closed this session more than once. The position is kept.",
      });
    case "media":
      return new Problem(0, {
        title: "The browser could not play on",
        detail: `Its decoder stopped${reason.detail ? `: ${reason.detail}` : "."}`,
      });
  }
}

/** Why a title cannot be played in this browser, or only a part of it. */
export function unsupportedWords({ part, missing }: Pick<Support, "part" | "missing">): Problem {
  const codecs = missing.join(" and ");
  const rest = { picture: "the sound", sound: "the picture" };
  const what = part ? `${rest[part]} of this title (${codecs})` : codecs || "this title";
  return new Problem(0, {
    title: `This browser cannot play ${what}`,
    detail:
      "Reel sends films as they are stored. Another browser, or a player such as VLC or mpv with an address from below, may play it.",
  });
}
