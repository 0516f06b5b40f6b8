import type { Session, Title } from "../api/types.ts";
import { castButton } from "../casts/add.ts";
import { bitRate, bytes, channelLabel, clock, codecName, languageName, resolutionLabel } from "../format.ts";
import { largest } from "../library/card.ts";
import { askSubtitles } from "../library/subtitles.ts";
import { addressed } from "../root.ts";
import { copyField } from "../ui/copy.ts";
import { type Child, h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";
import { decodes } from "./decoders.ts";

/**
 * The part below the player: the title's description, its tracks, and its addresses for other
 * players.
 */
export function details(title: Title, help: () => void, changed: (title: Title) => void): HTMLElement {
  const best = largest(title);
  const keys = h("button", { type: "button", class: "button quiet keys-button" }, icon("keyboard"), "Keys");
  keys.addEventListener("click", help);
  const add = h("button", { type: "button", class: "button quiet" }, icon("subtitles"), "Add subtitles");
  add.addEventListener("click", () => {
    void askSubtitles(title).then((now) => now && changed(now));
  });
  const facts = [
    clock(title.duration_s),
    best ? resolutionLabel(best.width, best.height) : "Sound only",
    bytes(title.bytes),
    `added ${new Date(title.added).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" })}`,
  ];
  return h(
    "section",
    { class: "details" },
    h(
      "div",
      { class: "details-head" },
      h(
        "div",
        {},
        h("h1", {}, title.name),
        h("p", { class: "facts" }, ...facts.map((fact) => h("span", {}, fact))),
      ),
      h(
        "div",
        { class: "details-actions" },
        keys,
        add,
        castButton(icon("cast"), title),
        h(
          "a",
          { class: "button", href: addressed(title.download), download: true },
          icon("download"),
          "Download",
        ),
      ),
    ),
    h(
      "div",
      { class: "details-columns" },
      block(
        "Picture",
        title.video.map((v) =>
          line(`${v.width}×${v.height}`, [
            playable("video", v.codec),
            `${trim(v.frame_rate)} frames/s`,
            bitRate(v.bitrate_bps),
          ]),
        ),
      ),
      block(
        "Sound",
        title.audio.map((a, i) =>
          line(languageName(a.language) || a.name || `Track ${i + 1}`, [
            a.name !== languageName(a.language) && languageName(a.language) ? a.name : "",
            playable("audio", a.codec),
            channelLabel(a.channels),
            `${trim(a.sample_rate / 1000)} kHz`,
          ]),
        ),
      ),
      block(
        "Subtitles",
        title.subtitles.map((s, i) =>
          line(languageName(s.language) || s.name || `Track ${i + 1}`, [
            s.name !== languageName(s.language) && languageName(s.language) ? s.name : "",
            s.forced ? "forced" : "",
          ]),
        ),
      ),
      warnings(title),
      h(
        "div",
        { class: "details-block wide" },
        h("h2", {}, "In another player"),
        address("HLS", title.watch.hls),
        address("DASH", title.watch.dash),
        address("MP4", title.watch.progressive),
      ),
    ),
  );
}

function block(heading: string, lines: HTMLElement[]): HTMLElement | null {
  return lines.length > 0
    ? h("div", { class: "details-block" }, h("h2", {}, heading), h("ul", {}, ...lines))
    : null;
}

/** What was left out of the title or changed. */
function warnings(title: Title): HTMLElement | null {
  const lines = title.warnings.map((warning) => h("li", {}, warning));
  const list = block("Left out or changed", lines);
  list?.classList.add("wide", "details-warnings");
  return list;
}

/** The codec's name, and whether this browser lacks it. */
function playable(kind: "video" | "audio", codec: string): string {
  return decodes(kind, codec) ? codecName(codec) : `${codecName(codec)} (not in this browser)`;
}

function line(main: string, rest: string[]): HTMLElement {
  return h(
    "li",
    {},
    h("span", { class: "line-main" }, main),
    h("span", { class: "line-rest" }, rest.filter(Boolean).join(" · ")),
  );
}

/** An address to copy. Opening it starts another session. */
function address(kind: string, path: Session["hls"]): Child {
  const { field, button } = copyField(new URL(addressed(path), location.href).href, `${kind} address`);
  return h("div", { class: "address" }, h("span", { class: "address-kind" }, kind), field, button);
}

function trim(value: number): string {
  return String(Number(value.toFixed(3)));
}
