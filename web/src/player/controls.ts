import { clock } from "../format.ts";
import { setText } from "../ui/dom.ts";
import { type Command, commandOf, stepSpeed } from "./keys.ts";
import { recall, remember } from "./preferences.ts";
import { type Stage, setControl } from "./stage.ts";

/** What the controls need of the player. */
export interface Actions {
  duration_s(): number;
  /** Where the title is, or will begin. */
  at_s(): number;
  seek(at_s: number): void;
  play(): void;
  /** Returns the message for the viewer. */
  toggleSubtitles(): string;
  statistics(): void;
  help(): void;
}

const IDLE_MS = 2600;
/** A viewer who uses the controls by keyboard gets longer to read them. */
const IDLE_KEYS_MS = 6000;
const BUBBLE_MS = 900;
const DOUBLE_TAP_MS = 300;

/** Buttons, keys, mouse and touch act on the video; the controls show the state of the video. */
export function installControls(
  stage: Stage,
  actions: Actions,
  signal: AbortSignal,
): { setSpeed: (speed: number) => void; showTime: () => void } {
  const { element, video } = stage;

  let bubbleTimer: ReturnType<typeof setTimeout> | undefined;
  const say = (text: string) => {
    setText(stage.bubble, text);
    stage.bubble.setAttribute("data-on", "");
    clearTimeout(bubbleTimer);
    bubbleTimer = setTimeout(() => stage.bubble.removeAttribute("data-on"), BUBBLE_MS);
  };

  const toggle = () => (video.paused ? actions.play() : video.pause());
  const seekBy = (seconds: number) => {
    actions.seek(actions.at_s() + seconds);
    say(`${seconds > 0 ? "+" : "−"}${Math.abs(seconds)} s`);
  };
  const setVolume = (volume: number) => {
    video.volume = Math.min(1, Math.max(0, volume));
    video.muted = video.volume === 0;
    say(`Volume ${Math.round(video.volume * 100)}%`);
  };
  const mute = () => {
    video.muted = !video.muted;
    if (!video.muted && video.volume === 0) video.volume = 0.5;
    say(video.muted ? "Sound off" : "Sound on");
  };
  const setSpeed = (speed: number) => {
    // A title that is loaded again begins with the default.
    video.defaultPlaybackRate = speed;
    video.playbackRate = speed;
    say(`${speed}×`);
  };

  const run = (command: Command) => {
    switch (command.do) {
      case "toggle":
        return toggle();
      case "mute":
        return mute();
      case "fullscreen":
        return void toggleFullscreen(stage);
      case "subtitles":
        return say(actions.toggleSubtitles());
      case "help":
        return actions.help();
      case "pip":
        return void togglePip(video);
      case "statistics":
        return actions.statistics();
      case "seekBy":
        return seekBy(command.seconds);
      case "seekTo":
        return actions.seek(command.fraction * actions.duration_s());
      case "volumeBy":
        return setVolume(Math.round((video.volume + command.step) * 100) / 100);
      case "speedBy":
        return setSpeed(stepSpeed(video.playbackRate, command.steps));
    }
  };

  const buttons: [HTMLElement, () => void][] = [
    [stage.play, toggle],
    [stage.bigPlay, toggle],
    [stage.rewind, () => seekBy(-10)],
    [stage.forward, () => seekBy(10)],
    [stage.mute, mute],
    [stage.pip, () => void togglePip(video)],
    [stage.fullscreen, () => void toggleFullscreen(stage)],
  ];
  for (const [button, action] of buttons) button.addEventListener("click", action);
  // A pressed button keeps the focus and would then take the space bar, which plays and pauses.
  stage.controls.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button") : null;
    if (event.detail > 0 && button && button.getAttribute("aria-haspopup") === null)
      element.focus({ preventScroll: true });
  });
  stage.volume.addEventListener("input", () => setVolume(stage.volume.valueAsNumber));

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented || !mayTake(event)) return;
      const command = commandOf(event);
      if (!command) return;
      event.preventDefault();
      wake();
      run(command);
    },
    { signal },
  );

  const wake = installIdle(stage, signal);
  installPointer(stage, { toggle, seekBy, wake }, signal);
  const showTime = reflect(stage, actions, signal);

  const { volume, muted } = recall();
  video.volume = volume ?? 1;
  video.muted = muted ?? false;
  if (!document.pictureInPictureEnabled) stage.pip.hidden = true;
  if (!document.fullscreenEnabled && !("webkitEnterFullscreen" in video)) stage.fullscreen.hidden = true;
  return { setSpeed, showTime };
}

/** Keys typed into a field, and the keys by which a focused button is pressed, are not commands. */
function mayTake(event: KeyboardEvent): boolean {
  const target = event.target instanceof Element ? event.target : undefined;
  if (target?.closest("input, select, textarea, dialog, [role=menu]")) return false;
  return !(target?.closest("button, a") && (event.key === " " || event.key === "Enter"));
}

/**
 * Hides the controls when nothing happens while the film runs. Gives a function that shows them.
 */
function installIdle(stage: Stage, signal: AbortSignal): () => void {
  const { element, video } = stage;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const rest = () => {
    const held =
      video.paused ||
      element.hasAttribute("data-menu-open") ||
      stage.seekbar.element.hasAttribute("data-dragging");
    if (held) timer = setTimeout(rest, IDLE_MS);
    else element.setAttribute("data-idle", "");
  };
  const wake = () => {
    element.removeAttribute("data-idle");
    clearTimeout(timer);
    timer = setTimeout(rest, stage.controls.querySelector(":focus-visible") ? IDLE_KEYS_MS : IDLE_MS);
  };
  element.addEventListener("keydown", wake);
  element.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse") wake();
  });
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !video.paused) {
      clearTimeout(timer);
      timer = setTimeout(rest, 500);
    }
  });
  for (const name of ["play", "pause", "seeking"]) video.addEventListener(name, wake, { signal });
  stage.controls.addEventListener("focusin", wake);
  stage.controls.addEventListener("pointerdown", wake);
  signal.addEventListener("abort", () => clearTimeout(timer));
  return wake;
}

/**
 * Mouse: one click plays or pauses, two fill the screen. Touch: one tap shows or hides the
 * controls, two seek.
 */
function installPointer(
  stage: Stage,
  act: { toggle: () => void; seekBy: (seconds: number) => void; wake: () => void },
  signal: AbortSignal,
): void {
  const { element, video } = stage;
  let lastTap_ms = 0;
  let lastKind = "mouse";
  video.addEventListener("pointerdown", (event) => (lastKind = event.pointerType), { signal });
  video.addEventListener(
    "click",
    (event) => {
      if (lastKind === "mouse") {
        act.toggle();
        return;
      }
      const now = performance.now();
      const third = (event.clientX - video.getBoundingClientRect().left) / video.clientWidth;
      if (now - lastTap_ms < DOUBLE_TAP_MS && (third < 0.36 || third > 0.64)) {
        act.seekBy(third < 0.5 ? -10 : 10);
      } else if (element.hasAttribute("data-idle") || video.paused) {
        act.wake();
      } else {
        element.setAttribute("data-idle", "");
      }
      lastTap_ms = now;
    },
    { signal },
  );
  video.addEventListener(
    "dblclick",
    () => {
      if (lastKind === "mouse") void toggleFullscreen(stage);
    },
    { signal },
  );
}

/** Shows the state of the video on the controls. Returns a function that shows the present time. */
function reflect(stage: Stage, actions: Actions, signal: AbortSignal): () => void {
  const { element, video } = stage;
  const on = (names: string, listener: () => void) => {
    for (const name of names.split(" ")) video.addEventListener(name, listener, { signal });
  };
  const time = () => {
    const duration_s = actions.duration_s();
    stage.seekbar.update(actions.at_s(), duration_s, video.buffered);
    setText(stage.now, clock(actions.at_s()));
    setText(stage.total, clock(duration_s));
  };
  let frame = 0;
  const tick = () => {
    time();
    frame = video.paused || video.ended ? 0 : requestAnimationFrame(tick);
  };
  on("timeupdate progress seeking seeked durationchange loadedmetadata", time);
  on("play playing", () => {
    cancelAnimationFrame(frame);
    tick();
  });
  on("play pause ended emptied", () => {
    element.toggleAttribute("data-paused", video.paused);
    setControl(stage.play, video.paused ? "play" : "pause", video.paused ? "Play" : "Pause");
  });
  on("volumechange", () => {
    const silent = video.muted || video.volume === 0;
    setControl(
      stage.mute,
      silent ? "muted" : video.volume < 0.5 ? "volumeLow" : "volume",
      silent ? "Sound on" : "Mute",
    );
    stage.volume.valueAsNumber = video.muted ? 0 : video.volume;
    stage.volume.style.setProperty("--volume", String(video.muted ? 0 : video.volume));
    remember({ volume: video.volume, muted: video.muted });
  });
  on("ratechange", () =>
    setText(stage.speed.querySelector(".control-text") ?? stage.speed, `${video.playbackRate}×`),
  );
  document.addEventListener(
    "fullscreenchange",
    () => {
      const full = document.fullscreenElement === element;
      element.toggleAttribute("data-full", full);
      setControl(
        stage.fullscreen,
        full ? "windowed" : "fullscreen",
        full ? "Leave full screen" : "Full screen",
      );
    },
    { signal },
  );
  signal.addEventListener("abort", () => cancelAnimationFrame(frame));
  element.toggleAttribute("data-paused", true);
  stage.volume.style.setProperty("--volume", "1");
  time();
  return time;
}

async function toggleFullscreen(stage: Stage): Promise<void> {
  const { element, video } = stage;
  try {
    if (document.fullscreenElement) {
      await document.exitFullscreen();
    } else if (document.fullscreenEnabled) {
      await element.requestFullscreen({ navigationUI: "hide" });
      const orientation = screen.orientation as ScreenOrientation & { lock?: (to: string) => Promise<void> };
      if (video.videoWidth > video.videoHeight) await orientation.lock?.("landscape");
    } else {
      (video as HTMLVideoElement & { webkitEnterFullscreen?: () => void }).webkitEnterFullscreen?.();
    }
  } catch {
    // Desktops cannot be turned, and a page in a frame may not fill the screen: nothing changes
    // then.
  }
}

async function togglePip(video: HTMLVideoElement): Promise<void> {
  try {
    if (document.pictureInPictureElement) await document.exitPictureInPicture();
    else await video.requestPictureInPicture();
  } catch {
    // Not before the first picture; nothing to show then.
  }
}
