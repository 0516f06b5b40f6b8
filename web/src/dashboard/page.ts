import { getDashboard } from "../api/client.ts";
import type { Dashboard, Member } from "../api/types.ts";
import { count } from "../format.ts";
import { header } from "../library/header.ts";
import { knownTitle, refreshTitles } from "../library/store.ts";
import { readOnlyDetails } from "../library/volume.ts";
import { followWatched } from "../library/watched.ts";
import { home } from "../root.ts";
import { h, replaceIfOther, setText } from "../ui/dom.ts";
import { failure } from "../ui/failure.ts";
import { icon } from "../ui/icons.ts";
import { poll } from "../ui/poll.ts";
import { rows } from "./bar.ts";
import { castSummary } from "./casts.ts";
import { classTable } from "./classes.ts";
import { isVolumeWork, volumeJobs } from "./jobs.ts";
import { lateList } from "./late.ts";
import { memberCard } from "./member.ts";
import { askReplacement } from "./replace.ts";
import { resourceTable } from "./resources.ts";
import { refusalList, sessionTable } from "./sessions.ts";
import { watchedDetails } from "./watched.ts";

/** How often the titles are asked for while the name of one that is played is not known. */
const NAMES_S = 10;

/** The state of admission: what is reserved, for which sessions, and how the disks keep it. */
export function dashboardPage(root: HTMLElement, signal: AbortSignal): void {
  document.title = "Dashboard · Reel";
  const bar = header();
  bar.prepend(
    h(
      "a",
      { class: "icon-button back", href: home, "aria-label": "Back to the library", title: "Library" },
      icon("back"),
    ),
  );
  const tally = h("p", { class: "tally" });
  const gone = h(
    "div",
    { class: "notice failed", hidden: true },
    icon("warning"),
    h("div", {}, h("strong", { role: "alert" }, "Reel does not answer"), h("p", { class: "gone-text" })),
  );
  const content = h("div", { class: "dashboard-content", hidden: true });
  const broken = h("div", {});
  const readOnly = h("div", { class: "notice-place" });
  const watched = h("div", { class: "notice-place" });
  root.append(
    bar,
    h(
      "main",
      { class: "dashboard" },
      h("div", { class: "library-bar" }, h("h1", {}, "Dashboard"), tally),
      gone,
      broken,
      readOnly,
      watched,
      content,
    ),
  );
  followWatched((watch) => replaceIfOther(watched, watchedDetails(watch)), signal);

  let ask: () => void = () => {};
  const members = h("div", { class: "members" });
  let at_s = 0;
  let round_ms = 1000;
  let names_s = 0;
  let mayReplace = false;
  const showMembers = rows<Member>(members, () => {
    const card = memberCard((member) => void askReplacement(member, () => ask()));
    return { element: card.element, show: (member) => card.show(member, at_s, round_ms, mayReplace) };
  });
  const resources = resourceTable();
  const classes = classTable(() => ask());
  const sessions = sessionTable();
  const refusals = refusalList();
  const casts = castSummary((content) => panel("Casts", content));
  const late = lateList();
  const jobs = volumeJobs(() => ask());
  content.append(
    panel("Sessions", sessions.element, "wide"),
    h(
      "div",
      { class: "stack" },
      panel("Promised", resources.element),
      panel("Refused", refusals.element),
      panel("Late", late.element),
      casts.element,
    ),
    h(
      "div",
      { class: "stack" },
      panel("Classes", classes.element),
      panel("Work on the volume", jobs.element),
    ),
    h("section", { class: "panel-bare wide", "aria-label": "Disks" }, h("h2", {}, "Disks"), members),
  );

  const show = (dashboard: Dashboard) => {
    gone.hidden = true;
    content.hidden = false;
    content.removeAttribute("data-old");
    broken.replaceChildren();
    at_s = dashboard.now_s;
    round_ms = dashboard.round_ns / 1e6;
    const amiss = dashboard.members.filter((member) => !member.in_use).length;
    setText(
      tally,
      [
        count(dashboard.sessions_total, "session"),
        `${dashboard.sessions_reserved} promised`,
        amiss === 0
          ? `all ${count(dashboard.members.length, "disk")} in use`
          : `${amiss} of ${count(dashboard.members.length, "disk")} not in use`,
      ].join(" · "),
    );
    replaceIfOther(readOnly, readOnlyDetails(dashboard.volume.read_only));
    mayReplace = dashboard.volume.writable && !dashboard.jobs.some(isVolumeWork);
    showMembers(dashboard.members);
    resources.show(dashboard.resources, dashboard.sharing);
    classes.show(dashboard.classes, dashboard.late);
    casts.show(dashboard.casts);
    late.show(dashboard.late);
    // A title is shown by its id until its name is known: it may be new, or the list not loaded
    // yet.
    if (dashboard.now_s >= names_s + NAMES_S || dashboard.now_s < names_s) {
      names_s = dashboard.now_s;
      const named = [...dashboard.sessions, ...dashboard.late];
      if (named.some(({ title }) => !knownTitle(title))) refreshTitles(signal).catch(() => {});
    }
    sessions.show(dashboard.sessions, dashboard.sessions_total);
    refusals.show(dashboard.refusals);
    jobs.show(dashboard.jobs, dashboard.volume.writable, dashboard.members);
  };

  ask = poll(
    getDashboard,
    {
      heard: show,
      missed(problem, silent_s) {
        if (content.hidden) {
          replaceIfOther(broken, [failure(problem)]);
          return;
        }
        content.setAttribute("data-old", "");
        gone.hidden = false;
        setText(gone.querySelector("strong") ?? gone, problem.headline);
        setText(
          gone.querySelector(".gone-text") ?? gone,
          `What is shown is ${count(silent_s ?? 0, "second")} old. This page keeps trying.`,
        );
      },
    },
    signal,
  );
  refreshTitles(signal).catch(() => {});
}

function panel(heading: string, content: HTMLElement, more = ""): HTMLElement {
  return h(
    "section",
    { class: more ? `panel ${more}` : "panel", "aria-label": heading },
    h("h2", {}, heading),
    content,
  );
}
