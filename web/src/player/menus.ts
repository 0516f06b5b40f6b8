import { bitRate, languageName, resolutionLabel } from "../format.ts";
import { setText } from "../ui/dom.ts";
import { type MenuItem, toggleMenu } from "../ui/menu.ts";
import type { Choice, Engine, Level } from "./engine.ts";
import { speeds } from "./keys.ts";
import type { Stage } from "./stage.ts";

/**
 * Carries out a choice. The engine may be another one than when the menu opened: an ended session
 * is opened again.
 */
export type Choose = (choice: (engine: Engine) => void) => void;

/** The four choices: picture, speed, sound, subtitles. `engine` may change while the page lives. */
export function installMenus(
  stage: Stage,
  engine: () => Engine | undefined,
  choose: Choose,
  setSpeed: (speed: number) => void,
): void {
  const { element: host, video } = stage;

  stage.quality.addEventListener("click", () => {
    const now = engine();
    if (now) toggleMenu(stage.quality, host, "Quality", qualityItems(now, choose));
  });
  stage.speed.addEventListener("click", () =>
    toggleMenu(
      stage.speed,
      host,
      "Speed",
      speeds.map((speed) => ({
        label: speed === 1 ? "Normal" : `${speed}×`,
        checked: video.playbackRate === speed,
        run: () => setSpeed(speed),
      })),
    ),
  );
  stage.audio.addEventListener("click", () => {
    const now = engine();
    if (!now) return;
    const items = now
      .audio()
      .map((choice, i) => item(choice, i, () => choose((engine) => engine.chooseAudio(i))));
    toggleMenu(stage.audio, host, "Sound", items.length > 0 ? items : [{ label: "This title has no sound" }]);
  });
  stage.subtitles.addEventListener("click", () => {
    const now = engine();
    if (!now) return;
    const choices = now.subtitles();
    toggleMenu(stage.subtitles, host, "Subtitles", [
      {
        label: "Off",
        checked: choices.every((choice) => !choice.active),
        run: () => choose((engine) => engine.chooseSubtitle(-1)),
      },
      ...choices.map((choice, i) => item(choice, i, () => choose((engine) => engine.chooseSubtitle(i)))),
    ]);
  });
}

/**
 * Writes the present choices on the buttons; while there is nothing to choose from they keep their
 * text and are disabled.
 */
export function showChoices(stage: Stage, engine: Engine | undefined): void {
  const ready = engine?.ready() ?? false;
  for (const button of [stage.quality, stage.audio, stage.subtitles]) button.disabled = !ready;
  if (!engine || !ready) return;
  const levels = engine.levels();
  const level = levels[engine.level()];
  setText(
    stage.quality.querySelector(".control-text") ?? stage.quality,
    level ? resolutionLabel(level.width, level.height) || "Auto" : "Auto",
  );
  const words = level
    ? `Quality: ${describeLevel(level)}${engine.chosenLevel() < 0 ? ", chosen automatically" : ""}`
    : "Quality";
  stage.quality.title = words;
  stage.quality.setAttribute("aria-label", words);
  const subtitles = engine.subtitles();
  stage.subtitles.hidden = subtitles.length === 0;
  stage.subtitles.toggleAttribute(
    "data-on",
    subtitles.some((choice) => choice.active),
  );
  stage.audio.hidden = engine.audio().length < 2;
}

export function choiceLabel(choice: Choice, index: number): string {
  const language = languageName(choice.language);
  if (!choice.name) return language || `Track ${index + 1}`;
  // "English" named "English", or a name that already contains the language.
  if (language === "" || choice.name.toLowerCase().includes(language.toLowerCase())) return choice.name;
  return choice.name === choice.language ? language : `${language}: ${choice.name}`;
}

function qualityItems(engine: Engine, choose: Choose): MenuItem[] {
  const levels = engine.levels();
  const shown = engine.level();
  const chosen = engine.chosenLevel();
  const current = levels[shown];
  const auto: MenuItem = {
    label: "Auto",
    checked: chosen < 0,
    run: () => choose((engine) => engine.chooseLevel(-1)),
  };
  if (current && chosen < 0) auto.hint = `now ${describeLevel(current)}`;
  // One level, or a browser that decides alone: nothing to choose, but still something to say.
  if (levels.length < 2) return [auto];
  const rest = levels
    .map((level, i) => ({ level, i }))
    .sort((a, b) => b.level.height - a.level.height || b.level.bitrate_bps - a.level.bitrate_bps)
    .map(({ level, i }) => ({
      label: resolutionLabel(level.width, level.height) || `Level ${i + 1}`,
      hint: `${level.width}×${level.height} · ${bitRate(level.bitrate_bps)}`,
      checked: chosen === i,
      run: () => choose((engine) => engine.chooseLevel(i)),
    }));
  return [auto, ...rest];
}

function describeLevel(level: Level): string {
  return [resolutionLabel(level.width, level.height), level.bitrate_bps > 0 ? bitRate(level.bitrate_bps) : ""]
    .filter(Boolean)
    .join(" · ");
}

function item(choice: Choice, index: number, run: () => void): MenuItem {
  return {
    label: choiceLabel(choice, index),
    ...(choice.detail ? { hint: choice.detail } : {}),
    checked: choice.active,
    run,
  };
}
