import type { Title } from "../api/types.ts";
import { clock, count, languageName, resolutionLabel, spokenTime } from "../format.ts";
import { supported } from "../player/decoders.ts";
import { loadPosition } from "../player/resume.ts";
import { supportMark } from "../player/support.ts";
import { addressed, below } from "../root.ts";
import { h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";
import { toggleMenu } from "../ui/menu.ts";
import { poster } from "./poster.ts";
import { askName } from "./rename.ts";
import { askSubtitles } from "./subtitles.ts";

/** One title in the grid. */
export function card(title: Title, remove: (title: Title) => void): HTMLLIElement {
  const best = largest(title);
  const label = best ? resolutionLabel(best.width, best.height) : "";
  const position = loadPosition(title.id);
  const picture = poster(title);
  if (label) picture.append(h("span", { class: "badge badge-size" }, label));
  const mark = title.problem ? "" : supportMark(supported(title));
  if (mark) picture.append(h("span", { class: "badge badge-support" }, mark));
  picture.append(h("span", { class: "badge badge-length" }, clock(title.duration_s)));
  picture.append(h("span", { class: "poster-play" }, icon("play")));
  if (position) {
    const seen = h("span", { class: "poster-seen" });
    seen.style.setProperty("--seen", String(position.at_s / position.of_s));
    picture.append(seen);
  }
  const more = h(
    "button",
    {
      type: "button",
      class: "icon-button card-more",
      "aria-label": `More for ${title.name}`,
      "aria-haspopup": "menu",
      "aria-expanded": false,
    },
    icon("more"),
  );
  more.addEventListener("click", () =>
    toggleMenu(more, document.body, title.name, [
      {
        label: position ? `Continue at ${clock(position.at_s)}` : "Play",
        icon: "play",
        href: titleUrl(title.id),
      },
      { label: "Download", icon: "download", href: addressed(title.download), download: true },
      { label: "Rename…", icon: "edit", run: () => void askName(title) },
      { label: "Add subtitles…", icon: "subtitles", run: () => void askSubtitles(title) },
      { label: "Delete…", icon: "trash", danger: true, run: () => remove(title) },
    ]),
  );
  return h(
    "li",
    { class: "card", "data-id": title.id },
    h(
      "a",
      {
        class: "card-link",
        href: titleUrl(title.id),
        "aria-label": [title.name, spokenTime(title.duration_s), label, mark].filter(Boolean).join(", "),
      },
      picture,
      h("span", { class: "card-name", title: title.name }, title.name),
    ),
    h(
      "div",
      { class: title.problem ? "card-meta failed" : "card-meta" },
      warned(title),
      title.problem ? "Cannot be read" : summary(title),
    ),
    more,
  );
}

/** A sign that something was left out of a title or changed; its page says what. */
function warned(title: Title): HTMLElement | null {
  if (title.warnings.length === 0) return null;
  return h(
    "span",
    { class: "card-warned", title: title.warnings.join("\n") },
    icon("warning"),
    h("span", { class: "visually-hidden" }, `${count(title.warnings.length, "warning")}. `),
  );
}

export function titleUrl(id: string): string {
  return below(`title/${encodeURIComponent(id)}`);
}

export function largest(title: Title) {
  return [...title.video].sort(
    (a, b) => b.width * b.height - a.width * a.height || b.bitrate_bps - a.bitrate_bps,
  )[0];
}

/** "German, English · subtitles": the difference between similar titles. */
function summary(title: Title): string {
  const spoken = [
    ...new Set(title.audio.map((track) => languageName(track.language)).filter((name) => name !== "")),
  ];
  const parts: string[] = [];
  if (spoken.length > 2) parts.push(count(spoken.length, "language"));
  else if (spoken.length > 0) parts.push(spoken.join(", "));
  else if (title.audio.length === 0) parts.push("No sound");
  else if (title.audio.length > 1) parts.push(count(title.audio.length, "sound track"));
  if (title.subtitles.length > 0) parts.push("subtitles");
  if (title.video.length === 0) parts.push("Sound only");
  if (parts.length === 0)
    parts.push(
      new Date(title.added).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" }),
    );
  return parts.join(" · ");
}
