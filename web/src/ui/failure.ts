import type { Problem } from "../api/problem.ts";
import { type Child, h } from "./dom.ts";
import { icon } from "./icons.ts";

/** A problem in the place of the content it prevented. */
export function failure(problem: Problem, ...actions: Child[]): HTMLElement {
  return h(
    "div",
    { class: "failure", role: "alert" },
    h("span", { class: "failure-icon" }, icon("warning")),
    h("h2", {}, problem.headline),
    problem.detail ? h("p", {}, problem.detail) : null,
    actions.length > 0 ? h("div", { class: "failure-actions" }, ...actions) : null,
  );
}
