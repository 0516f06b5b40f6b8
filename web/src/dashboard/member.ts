import type { Member, MemberClass, Price } from "../api/types.ts";
import { count } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { makeBar, rows } from "./bar.ts";
import { keep, makeChart, type Sample } from "./chart.ts";
import { LATE_RECENT_S, lateWords, memberWords, milliseconds, pathEnd } from "./words.ts";

/** Above this width the figures of all disks are shown; below, each disk's when asked for. */
const WIDE = "(min-width: 641px)";

/** One disk: its state, the time it has left, and the classes that use it. */
export function memberCard(replace: (member: Member) => void): {
  element: HTMLElement;
  show(member: Member, at_s: number, round_ms: number, mayReplace: boolean): void;
} {
  const name = h("h3", {});
  const state = h("span", { class: "state" });
  const path = h("p", { class: "member-path" });
  const trouble = h("p", { class: "member-trouble", hidden: true });
  const button = h("button", { type: "button", class: "button small", hidden: true }, "Replace…");
  const work = memberWork();
  const element = h(
    "article",
    { class: "member" },
    h("div", { class: "member-head" }, name, state),
    path,
    trouble,
    button,
    work.element,
  );
  let shown: Member | undefined;
  button.addEventListener("click", () => shown && replace(shown));
  return {
    element,
    show(member, at_s, round_ms, mayReplace) {
      shown = member;
      setText(name, `Disk ${member.member}`);
      setText(state, memberWords(member));
      element.toggleAttribute("data-amiss", !member.in_use || member.activity === "silent");
      setText(path, pathEnd(member.path));
      path.title = member.path;
      trouble.hidden = member.state === "present";
      setText(trouble, member.text);
      button.hidden = member.in_use;
      button.disabled = !mayReplace;
      button.setAttribute("aria-label", `Replace disk ${member.member}…`);
      // A disk that does nothing has no time left and no use of classes.
      work.element.hidden = !member.in_use;
      work.show(member, at_s, round_ms);
    },
  };
}

/** What a disk does: its slack, and how much of it each class uses. */
function memberWork(): {
  element: HTMLElement;
  show(member: Member, at_s: number, round_ms: number): void;
} {
  const slack = h("span", { class: "slack-now" });
  const least = h("span", { class: "slack-least" });
  const chart = makeChart();
  const classes = h("ul", { class: "member-classes" });
  const showClasses = rows<MemberClass>(classes, classRow);
  const facts = h("dl", { class: "member-facts" });
  const showFacts = rows<[string, string, boolean]>(facts, fact);
  const element = h(
    "div",
    { class: "member-work" },
    h("div", { class: "slack" }, h("span", { class: "slack-word" }, "Slack"), slack, least),
    h(
      "details",
      { open: matchMedia(WIDE).matches },
      h("summary", {}, "Classes and figures"),
      chart.element,
      classes,
      facts,
    ),
  );
  let samples: Sample[] = [];
  return {
    element,
    show(member, at_s, round_ms) {
      samples = keep(samples, { at_s, slack_ms: member.slack_ms, least_ms: member.least_slack_ms });
      // Only the policy that keeps reservations has a slack.
      const knows = member.policy === "rounds" && member.in_use;
      setText(slack, knows ? milliseconds(member.slack_ms) : "none known");
      setText(least, knows ? `min ${milliseconds(member.least_slack_ms)}` : "");
      element.toggleAttribute("data-late", knows && member.least_slack_ms < 0);
      chart.element.toggleAttribute("data-off", !knows);
      chart.draw(
        samples,
        round_ms,
        `Slack of disk ${member.member} in the last two minutes: ${milliseconds(member.slack_ms)} now, ${milliseconds(Math.min(...samples.map((s) => s.least_ms)))} at least, of ${milliseconds(round_ms)}`,
      );
      showClasses(member.classes);
      showFacts(factsOf(member));
    },
  };
}

/** Names, values, and whether they are a fault. */
function factsOf(member: Member): [string, string, boolean][] {
  const isLate = member.last_late !== null && member.last_late.ago_s < LATE_RECENT_S;
  return [
    ["Rounds", member.rounds.toLocaleString("en"), false],
    ["Waiting", count(member.queued, "request"), false],
    ["In the disk", count(member.in_device, "request"), false],
    ["Late", lateWords(member), isLate],
    ["Errors", member.errors.toLocaleString("en"), member.errors > 0],
    ["A read", priceWords(member.price), false],
    ...(isFar(member.price, member.measured_price)
      ? [["As measured", priceWords(member.measured_price), false] satisfies [string, string, boolean]]
      : []),
  ];
}

function priceWords({ read_request_us, read_mib_us, independent_limits }: Price): string {
  const request =
    read_request_us < 1000 ? `${Math.round(read_request_us)} µs` : milliseconds(read_request_us / 1000);
  const price = `${request} ${independent_limits ? "or" : "+"} ${milliseconds(read_mib_us / 1000)}/MiB`;
  return `${price}${independent_limits ? ", the longer" : ""}`;
}

/** Whether reads cost another amount than when the disk was measured, by more than a quarter. */
function isFar(found: Price, measured: Price): boolean {
  const far = (a: number, b: number) => Math.max(a, b) > 1.25 * Math.min(a, b);
  return far(found.read_request_us, measured.read_request_us) || far(found.read_mib_us, measured.read_mib_us);
}

function classRow(): { element: HTMLElement; show(of: MemberClass): void } {
  const name = h("span", { class: "member-class" });
  const bar = makeBar();
  const words = h("span", { class: "member-use" });
  return {
    element: h("li", {}, name, bar.element, words),
    show(of) {
      setText(name, of.class);
      // The bar is one round; the mark is what the class may claim of it.
      bar.fill(Math.min(100, of.used_ms / 10), of.quota_ms / 10);
      setText(words, `${milliseconds(of.used_ms)} of ${milliseconds(of.quota_ms)}`);
    },
  };
}

function fact(): { element: HTMLElement; show(fact: [string, string, boolean]): void } {
  const name = h("dt", {});
  const value = h("dd", {});
  const element = h("div", {}, name, value);
  return {
    element,
    show([what, words, amiss]) {
      setText(name, what);
      setText(value, words);
      element.toggleAttribute("data-amiss", amiss);
    },
  };
}
