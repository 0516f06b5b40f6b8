import type { Title } from "../api/types.ts";
import { addressed } from "../root.ts";
import { type Child, h } from "../ui/dom.ts";
import { type IconName, icon } from "../ui/icons.ts";
import { Captions } from "./captions.ts";
import { SeekBar } from "./seekbar.ts";

/** The elements of the player, without behaviour. */
export function makeStage({ name, poster }: Pick<Title, "name" | "poster">, seek: (at_s: number) => void) {
  const video = h("video", {
    playsinline: true,
    preload: "auto",
    poster: poster ? addressed(poster) : undefined,
    "aria-label": name,
  });
  const captions = new Captions();
  const seekbar = new SeekBar(seek);

  const play = control("play", "Play", "k");
  const rewind = control("rewind", "Back 10 seconds", "j");
  const forward = control("forward", "Forward 10 seconds", "l");
  const mute = control("volume", "Mute", "m");
  const volume = h("input", {
    type: "range",
    class: "volume",
    min: 0,
    max: 1,
    step: 0.01,
    value: 1,
    "aria-label": "Volume",
  });
  const now = h("span", { class: "time-now" }, "0:00");
  const total = h("span", { class: "time-total" }, "0:00");
  const quality = menuButton("Quality", h("span", { class: "control-text" }, "Auto"));
  const speed = menuButton("Speed", h("span", { class: "control-text" }, "1×"));
  const audio = menuButton("Sound track", icon("audio"));
  const subtitles = menuButton("Subtitles", icon("subtitles"));
  const pip = control("pip", "Picture in picture", "p");
  const fullscreen = control("fullscreen", "Full screen", "f");

  const bigPlay = h(
    "button",
    { type: "button", class: "big-play", "aria-label": "Play", tabindex: -1 },
    icon("play"),
  );
  const waiting = h(
    "div",
    { class: "waiting", hidden: true },
    h("div", { class: "spinner" }),
    h("p", { class: "waiting-text" }),
  );
  const bubble = h("div", { class: "bubble", role: "status" });
  const note = h("div", { class: "note", hidden: true });
  const message = h("div", { class: "message", hidden: true });
  const statistics = h("dl", { class: "statistics", hidden: true });

  const controls = h(
    "div",
    { class: "controls" },
    seekbar.element,
    h(
      "div",
      { class: "controls-row" },
      play,
      rewind,
      forward,
      h("div", { class: "volume-group" }, mute, volume),
      h("div", { class: "time" }, now, h("span", { class: "time-slash", "aria-hidden": "true" }, "/"), total),
      h("div", { class: "spacer" }),
      quality,
      speed,
      audio,
      subtitles,
      pip,
      fullscreen,
    ),
  );
  const element = h(
    "section",
    { class: "stage", "aria-label": `Player: ${name}`, tabindex: -1 },
    video,
    captions.element,
    h("div", { class: "stage-title" }, name),
    waiting,
    bigPlay,
    bubble,
    note,
    statistics,
    controls,
    message,
  );

  return {
    element,
    video,
    captions,
    seekbar,
    play,
    rewind,
    forward,
    mute,
    volume,
    now,
    total,
    quality,
    speed,
    audio,
    subtitles,
    pip,
    fullscreen,
    bigPlay,
    waiting,
    bubble,
    note,
    message,
    statistics,
    controls,
  };
}

export type Stage = ReturnType<typeof makeStage>;

/** Swaps a control's drawing and name. */
export function setControl(button: HTMLButtonElement, name: IconName, label: string): void {
  if (button.dataset.icon === name) return;
  button.dataset.icon = name;
  button.querySelector("svg")?.replaceWith(icon(name));
  const key = button.dataset.key;
  button.setAttribute("aria-label", label);
  button.title = key ? `${label} (${key})` : label;
}

function control(name: IconName, label: string, key: string): HTMLButtonElement {
  return h(
    "button",
    {
      type: "button",
      class: "control",
      "aria-label": label,
      title: `${label} (${key})`,
      "data-key": key,
      "data-icon": name,
      "data-control": label.split(" ")[0]?.toLowerCase(),
    },
    icon(name),
  );
}

function menuButton(label: string, content: Child): HTMLButtonElement {
  return h(
    "button",
    {
      type: "button",
      class: "control",
      "aria-label": label,
      title: label,
      "aria-haspopup": "menu",
      "aria-expanded": false,
      "data-control": label.split(" ")[0]?.toLowerCase(),
    },
    content,
  );
}
