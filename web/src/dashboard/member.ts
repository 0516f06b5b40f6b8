import type { Member, MemberClass } from "../api/types.ts";
import { count } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { makeBar, rows } from "./bar.ts";
import { keep, makeChart, type Sample } from "./chart.ts";
import { milliseconds, pathEnd, stateWords } from "./words.ts";

/** One disk: its state, the time it has left, and the classes that use it. */
export function memberCard(): {
  element: HTMLElement;
  show(member: Member, at_s: number, round_ms: number): void;
} {
  const name = h("h3", {});
  const state = h("span", { class: "state" });
  const path = h("p", { class: "member-path" });
  const trouble = h("p", { class: "member-trouble", hidden: true });
  const slack = h("span", { class: "slack-now" });
  const least = h("span", { class: "slack-least" });
  const chart = makeChart();
  const classes = h("ul", { class: "member-classes" });
  const showClasses = rows<MemberClass>(classes, classRow);
  const facts = h("dl", { class: "member-facts" });
  const showFacts = rows<[string, string, boolean]>(facts, fact);
  const element = h(
    "article",
    { class: "member" },
    h("div", { class: "member-head" }, name, state),
    path,
    trouble,
    h("div", { class: "slack" }, h("span", { class: "slack-word" }, "Slack"), slack, least),
    chart.element,
    classes,
    facts,
  );
  let samples: Sample[] = [];
  return {
    element,
    show(member, at_s, round_ms) {
      setText(name, `Disk ${member.member}`);
      setText(state, stateWords(member.state));
      element.toggleAttribute("data-amiss", !member.in_use);
      setText(path, pathEnd(member.path));
      path.title = member.path;
      trouble.hidden = member.state === "present";
      setText(trouble, member.text);
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
      const { read_request_us, read_mib_us, independent_limits } = member.price;
      showFacts([
        ["Rounds", member.rounds.toLocaleString("en"), false],
        ["Waiting", count(member.queued, "request"), false],
        ["In the disk", count(member.in_device, "request"), false],
        ["Late", count(member.late, "request"), member.late > 0],
        ["Errors", member.errors.toLocaleString("en"), member.errors > 0],
        [
          "A read",
          `${read_request_us < 1000 ? `${Math.round(read_request_us)} µs` : milliseconds(read_request_us / 1000)} ${independent_limits ? "or" : "+"} ${milliseconds(read_mib_us / 1000)}/MiB${independent_limits ? ", the longer" : ""}`,
          false,
        ],
      ]);
    },
  };
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
