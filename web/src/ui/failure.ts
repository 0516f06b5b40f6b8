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
    problem.detail ? reason(problem) : null,
    actions.length > 0 ? h("div", { class: "failure-actions" }, ...actions) : null,
  );
}

/** Why a server failed is for the operator, and is shown only to a viewer that asks for it. */
function reason({ status, detail }: Problem): HTMLElement {
  const isOperators = status >= 500 && status !== 503;
  return isOperators
    ? h("details", { class: "failure-details" }, h("summary", {}, "For the operator"), h("p", {}, detail))
    : h("p", {}, detail);
}
