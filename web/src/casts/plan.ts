import { planCast } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { CastPlan, CastPlans } from "../api/types.ts";
import { bitRate, capitalized } from "../format.ts";
import { knownTitle } from "../library/store.ts";
import { h, setText } from "../ui/dom.ts";
import { hasStream } from "./stream.ts";
import { duration } from "./words.ts";

/** What is asked for: `null` sends the title to one group. */
export type Bound = { wait_s: number } | { bandwidth_bps: number } | null;

/** The wait after a key until a plan is asked for. */
const ASK_AFTER_MS = 300;

export interface PlanPreview {
  element: HTMLElement;
  /** The scheme that is chosen. */
  scheme(): string;
  /** Shows what it costs. A later call makes the answer of an earlier one void. */
  ask(title: string, bound: Bound): void;
}

/** The cost of each scheme, of which one is chosen. */
export function planPreview(signal: AbortSignal): PlanPreview {
  let chosen = "rfs";
  let turn = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const words = h("p", { class: "quiet-line", role: "status" });
  const body = h("tbody", {});
  const head = ["Scheme", "Groups", "Rate", "Wait"];
  const table = h(
    "table",
    { class: "grid-table cast-plans", hidden: true },
    h("caption", { class: "visually-hidden" }, "What each scheme costs"),
    h("thead", {}, h("tr", {}, ...head.map((word) => h("th", { scope: "col" }, word)))),
    body,
  );
  const show = (plans: CastPlans, bound: Bound) => {
    table.hidden = bound === null;
    const cost = `One group takes ${bitRate(withFec(plans.rate_bps, plans))} with FEC.`;
    const notes = hasStream(knownTitle(plans.title))
      ? []
      : plans.notes.map((note) => `${capitalized(note)}.`);
    setText(words, [bound === null ? cost : "Rates are those of all groups with FEC.", ...notes].join(" "));
    if (!plans.plans.some(({ scheme }) => scheme === chosen)) chosen = plans.plans.at(-1)?.scheme ?? chosen;
    const rows = plans.plans.map((plan) => planRow(plan, plans, plan.scheme === chosen));
    body.replaceChildren(...rows);
  };
  body.addEventListener("change", (event) => {
    if (event.target instanceof HTMLInputElement) chosen = event.target.value;
  });
  return {
    element: h("div", { class: "cast-preview" }, table, words),
    scheme: () => chosen,
    ask(title, bound) {
      const mine = ++turn;
      clearTimeout(timer);
      timer = setTimeout(() => {
        planCast(title, bound, signal).then(
          (plans) => mine === turn && show(plans, bound),
          (error: unknown) => {
            if (mine !== turn || signal.aborted) return;
            table.hidden = true;
            setText(words, asProblem(error).sentence);
          },
        );
      }, ASK_AFTER_MS);
    },
  };
}

function planRow(plan: CastPlan, plans: CastPlans, checked: boolean): HTMLElement {
  const radio = h("input", { type: "radio", name: "scheme", value: plan.scheme, checked });
  const name = h("label", {}, radio, plan.scheme);
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      name,
      plan.problem ? h("small", { class: "cast-plan-problem" }, capitalized(plan.problem)) : null,
    ),
    h("td", {}, plan.channels.toLocaleString("en")),
    h("td", { class: "cast-plan-rate" }, bitRate(withFec(plan.bandwidth_bps, plans))),
    h("td", { class: "cast-plan-rate" }, duration(plan.wait_s)),
  );
}

function withFec(rate_bps: number, { fec_permille }: CastPlans): number {
  return rate_bps * (1 + fec_permille / 1000);
}
