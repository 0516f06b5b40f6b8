import type { Session, Title } from "../api/types.ts";
import { bitRate, bytes, channelLabel, clock, codecName, languageName, resolutionLabel } from "../format.ts";
import { largest } from "../library/card.ts";
import { type Child, h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

/**
 * The part below the player: the title's description, its tracks, and its addresses for other
 * players.
 */
export function details(title: Title, help: () => void): HTMLElement {
  const best = largest(title);
  const keys = h("button", { type: "button", class: "button quiet keys-button" }, icon("keyboard"), "Keys");
  keys.addEventListener("click", help);
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
        h("a", { class: "button", href: title.download, download: true }, icon("download"), "Download"),
      ),
    ),
    h(
      "div",
      { class: "details-columns" },
      block(
        "Picture",
        title.video.map((v) =>
          line(`${v.width}×${v.height}`, [
            codecName(v.codec),
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
            codecName(a.codec),
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
  const field = h("input", {
    class: "address-field",
    readonly: true,
    value: new URL(path, location.href).href,
    "aria-label": `${kind} address`,
  });
  const copy = h(
    "button",
    { type: "button", class: "icon-button", "aria-label": `Copy the ${kind} address`, title: "Copy" },
    icon("link"),
  );
  field.addEventListener("focus", () => field.select());
  copy.addEventListener("click", () => {
    field.select();
    // The clipboard object exists only on secure origins; a server in a home network mostly is
    // none.
    const done = navigator.clipboard
      ? navigator.clipboard.writeText(field.value).then(
          () => true,
          () => false,
        )
      : Promise.resolve(document.execCommand("copy"));
    void done.then((copied) => {
      if (!copied) return;
      copy.replaceChildren(icon("check"));
      setTimeout(() => copy.replaceChildren(icon("link")), 1500);
    });
  });
  return h("div", { class: "address" }, h("span", { class: "address-kind" }, kind), field, copy);
}

function trim(value: number): string {
  return String(Number(value.toFixed(3)));
}
