import { closeSession, openSession } from "../api/client.ts";
import { asProblem, type Problem } from "../api/problem.ts";
import type { Session, Title } from "../api/types.ts";
import { clock } from "../format.ts";
import { addressed } from "../root.ts";
import { h, setText } from "../ui/dom.ts";
import { type Actions, installControls } from "./controls.ts";
import { supported } from "./decoders.ts";
import { type Engine, type Failure, forcedWay, startEngine } from "./engine.ts";
import { showHelp } from "./help.ts";
import { installMenus, showChoices } from "./menus.ts";
import { failureWords, noSuchTitle, showFailure, showRefusal, unsupportedWords } from "./messages.ts";
import { isRefused } from "./refusal.ts";
import { forgetPosition, loadPosition, savePosition } from "./resume.ts";
import { makeStage, type Stage } from "./stage.ts";
import { StallMeter } from "./stalls.ts";
import { showStatistics } from "./statistics.ts";
import type { Support, Way } from "./support.ts";
import { announceMedia } from "./system.ts";
import { installWaiting, type Waiting } from "./waiting.ts";

const SAVE_MS = 5000;
const NOTE_MS = 8000;
/**
 * A session that ends this often while nothing plays in between is a fault of the server, not an
 * expiry.
 */
const RENEWALS = 3;
const CONTINUES_S = 2;

/** One title on its stage, from the session's opening to its return. */
export class Player {
  readonly stage: Stage;
  private title: Title;
  private readonly signal: AbortSignal;
  private readonly stalls = new StallMeter();
  private readonly waiting: Waiting;
  private readonly showTime: () => void;
  private readonly support: Support;
  /** How the title gets into the video; undefined if this browser cannot play all of it. */
  private way: Way | undefined;
  private session: Session | undefined;
  private engine: Engine | undefined;
  private renewals = 0;
  private busy = false;
  /** Whether it shall play as soon as it can. */
  private playing = false;
  /** Where the title is; while there is no picture, where it will begin. */
  private place_s = 0;
  /**
   * Whether the video was sent to `place_s` since it has metadata. Until then it stands at zero.
   */
  private placed = false;
  /** Where the engine was told to begin. */
  private begun_s = 0;
  /** What the viewer chose before and while the film was opened again, for the engine to come. */
  private chosen: ((engine: Engine) => void)[] = [];

  constructor(title: Title, signal: AbortSignal) {
    this.title = title;
    this.signal = signal;
    this.support = supported(title);
    this.way = forcedWay() ?? this.support.way;
    this.stage = makeStage(title, (at_s) => this.seek(at_s));
    const { video } = this.stage;
    const actions: Actions = {
      duration_s: () => this.duration_s(),
      at_s: () => this.at_s(),
      seek: (at_s) => this.seek(at_s),
      play: () => this.play(),
      toggleSubtitles: () => this.toggleSubtitles(),
      statistics: () => this.toggleStatistics(),
      help: () => showHelp(this.stage.element),
    };
    const { setSpeed, showTime } = installControls(this.stage, actions, signal);
    installMenus(
      this.stage,
      () => this.engine,
      (choice) => this.choose(choice),
      setSpeed,
    );
    showChoices(this.stage, undefined);
    this.waiting = installWaiting(this.stage, this.stalls, signal);
    announceMedia(title, video, actions, signal);

    this.showTime = showTime;
    video.addEventListener(
      "loadedmetadata",
      () => {
        // The viewer may have gone elsewhere since the engine began, even to the beginning.
        if (this.place_s > 0 || this.begun_s > 0) video.currentTime = this.place_s;
        this.placed = true;
        this.showTime();
      },
      { signal },
    );
    video.addEventListener(
      "emptied",
      () => {
        this.placed = false;
      },
      { signal },
    );
    video.addEventListener("timeupdate", () => this.moved(), { signal });
    video.addEventListener("play", () => (this.playing = true), { signal });
    video.addEventListener(
      "pause",
      () => {
        // A browser also pauses what it cannot load, or what was unloaded.
        if (this.engine && !video.error) this.playing = false;
      },
      { signal },
    );
    const save = () => this.save();
    const timer = setInterval(save, SAVE_MS);
    video.addEventListener("pause", save, { signal });
    video.addEventListener("ended", () => forgetPosition(title.id), { signal });
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      save();
      this.leave();
    });
  }

  /** Opens a session where the film was left and begins. */
  start(): void {
    const left = loadPosition(this.title.id);
    this.place_s = left?.at_s ?? 0;
    if (left) this.showResumed(left.at_s);
    this.showTime();
    // Without a press or key anywhere on the site browsers refuse sound; the large button then
    // waits for one. Some browsers load nothing before it.
    this.playing = navigator.userActivation?.hasBeenActive ?? true;
    void this.open(this.playing);
  }

  /** The title has other tracks now: opens it again where it is, with the choices made. */
  renew(title: Title): void {
    this.title = title;
    // What is being opened, or was refused, is opened as the title is now or when the page is next.
    if (this.busy || !this.engine) return;
    this.place_s = this.at_s();
    this.keepChoices(this.engine);
    this.save();
    this.leave();
    void this.open(this.playing);
  }

  /** Opens a session and begins at `place_s`. While it is not expected to play, it can be begun. */
  private async open(isExpected = true): Promise<void> {
    if (this.busy) return;
    const { way } = this;
    if (!way) {
      this.showUnsupported();
      return;
    }
    this.busy = true;
    const { message, element } = this.stage;
    element.toggleAttribute("data-loading", isExpected);
    try {
      // Not aborted when the page is left: what the server reserves meanwhile has to be given back.
      const session = await openSession(this.title.id);
      if (this.signal.aborted) {
        closeSession(session.key);
        return;
      }
      this.session = session;
      this.waiting.startsIn(session.starts_in_s);
      this.begun_s = this.place_s;
      const engine = await startEngine(way, {
        video: this.stage.video,
        title: this.title,
        session,
        start_s: this.begun_s,
        changed: () => this.changed(),
        failed: (failure) => this.failed(failure),
      });
      if (this.signal.aborted) {
        engine.destroy();
        closeSession(session.key);
        return;
      }
      this.engine = engine;
      this.changed();
      if (this.playing) this.play();
    } catch (error) {
      if (this.signal.aborted) return;
      const problem = asProblem(error);
      this.leave();
      element.removeAttribute("data-loading");
      const again = () => this.openAgain(true);
      if (isForEver(problem))
        showFailure(
          message,
          problem,
          undefined,
          h(
            "a",
            { class: "button primary", href: addressed(this.title.download), download: true },
            "Download",
          ),
        );
      else if (isRefused(problem.status))
        showRefusal(message, problem, (isPressed) => this.openAgain(isPressed), this.signal);
      else if (problem.status === 404) showFailure(message, noSuchTitle);
      else showFailure(message, problem, again);
    } finally {
      this.busy = false;
    }
  }

  /** Says before anything is loaded that not all can be played, and offers the rest. */
  private showUnsupported(): void {
    const { part } = this.support;
    const words = part === "picture" ? "Play without sound" : "Play the sound only";
    const rest = part && h("button", { type: "button", class: "button primary" }, words);
    rest?.addEventListener("click", () => {
      this.stage.message.hidden = true;
      this.way = "progressive";
      this.openAgain(true);
    });
    showFailure(this.stage.message, unsupportedWords(this.support), undefined, rest);
  }

  /**
   * After a press it plays; after the countdown a title that was paused is shown where it stands.
   */
  private openAgain(isPressed: boolean): void {
    this.renewals = 0;
    if (isPressed) this.playing = true;
    void this.open();
  }

  private choose(choice: (engine: Engine) => void): void {
    if (this.engine?.ready()) choice(this.engine);
    else this.chosen.push(choice);
  }

  private changed(): void {
    if (!this.engine) return;
    showChoices(this.stage, this.engine);
    this.stage.captions.show(this.engine.textTrack());
    if (!this.engine.ready()) return;
    // Not before the engine has handled its event: hls.js then makes its own first choice.
    for (const choice of this.chosen.splice(0)) queueMicrotask(() => this.choose(choice));
  }

  private failed(failure: Failure): void {
    if (this.busy || this.signal.aborted || !this.engine) return;
    const { video } = this.stage;
    if (playedFor_s(video) >= CONTINUES_S) this.renewals = 0;
    this.place_s = this.at_s();
    this.keepChoices(this.engine);
    this.save();
    this.leave();
    if (failure.reason === "session-gone" && this.renewals < RENEWALS) {
      this.renewals += 1;
      void this.open();
      return;
    }
    if (failure.reason === "unsupported" && this.way === "hls" && !forcedWay()) {
      // Media Source Extensions promised what they cannot do; a media element may be able to.
      this.way = "progressive";
      void this.open();
      return;
    }
    this.stage.element.removeAttribute("data-loading");
    if (failure.reason === "refused") {
      showRefusal(this.stage.message, failure.problem, (isPressed) => this.openAgain(isPressed), this.signal);
      return;
    }
    showFailure(
      this.stage.message,
      failureWords(failure),
      failure.reason === "unsupported" ? undefined : () => this.openAgain(true),
    );
  }

  /**
   * Has the next engine begin with the tracks that this one plays. The language alone does not do:
   * a commentary has the language of the title's own sound.
   */
  private keepChoices(engine: Engine): void {
    if (!engine.ready()) return;
    const level = engine.chosenLevel();
    const sound = engine.audio().findIndex((choice) => choice.active);
    const subtitle = engine.subtitles().findIndex((choice) => choice.active);
    this.chosen.push((next) => {
      if (next.chosenLevel() !== level) next.chooseLevel(level);
      if (sound >= 0 && next.audio()[sound]?.active === false) next.chooseAudio(sound);
      const subtitles = next.subtitles();
      if (subtitle < subtitles.length && subtitles.findIndex((choice) => choice.active) !== subtitle)
        next.chooseSubtitle(subtitle);
    });
  }

  private leave(): void {
    this.engine?.destroy();
    this.engine = undefined;
    showChoices(this.stage, undefined);
    if (this.session) closeSession(this.session.key);
    this.session = undefined;
  }

  private play(): void {
    this.stage.video.play().catch(() => {
      // Refused because nothing was pressed yet: the large button shows. Other causes come as the
      // engine's failure.
    });
  }

  private seek(at_s: number): void {
    // The very end would end the title; half a second before it shows the last pictures.
    this.place_s = Math.max(0, Math.min(at_s, Math.max(0, this.duration_s() - 0.5)));
    if (this.hasPlace()) this.stage.video.currentTime = this.place_s;
    this.stage.note.hidden = true;
    this.showTime();
  }

  private at_s(): number {
    return this.hasPlace() ? this.stage.video.currentTime : this.place_s;
  }

  /** Whether the video is where the title is. Its metadata are there before their event is. */
  private hasPlace(): boolean {
    return (
      this.engine !== undefined &&
      this.placed &&
      this.stage.video.readyState >= HTMLMediaElement.HAVE_METADATA
    );
  }

  private moved(): void {
    if (this.hasPlace()) this.place_s = this.stage.video.currentTime;
  }

  private duration_s(): number {
    const { duration } = this.stage.video;
    return Number.isFinite(duration) && duration > 0 ? duration : this.title.duration_s;
  }

  private save(): void {
    const { video } = this.stage;
    // Before it is placed the video stands at zero, which would overwrite the position to resume.
    if (this.hasPlace() && video.currentTime > 0 && !video.ended)
      savePosition(this.title.id, { at_s: video.currentTime, of_s: this.duration_s() });
  }

  private showResumed(at_s: number): void {
    const { note } = this.stage;
    const restart = h("button", { type: "button", class: "note-action" }, "Start over");
    restart.addEventListener("click", () => {
      forgetPosition(this.title.id);
      this.seek(0);
      this.play();
    });
    note.replaceChildren(h("span", {}, `Continuing at ${clock(at_s)}`), restart);
    note.hidden = false;
    this.stage.video.addEventListener("playing", () => setTimeout(() => (note.hidden = true), NOTE_MS), {
      once: true,
      signal: this.signal,
    });
  }

  private toggleSubtitles(): string {
    const choices = this.engine?.subtitles() ?? [];
    if (!this.engine || choices.length === 0) return "No subtitles in this title";
    const active = choices.findIndex((choice) => choice.active);
    this.engine.chooseSubtitle(
      active >= 0
        ? -1
        : Math.max(
            0,
            choices.findIndex((choice) => choice.detail !== "forced"),
          ),
    );
    return active >= 0 ? "Subtitles off" : "Subtitles on";
  }

  private toggleStatistics(): void {
    const { statistics, video } = this.stage;
    statistics.hidden = !statistics.hidden;
    if (statistics.hidden) return;
    const draw = () => {
      if (statistics.hidden || this.signal.aborted) return;
      if (this.engine) showStatistics(statistics, video, this.title, this.engine, this.stalls);
      else setText(statistics, "");
      setTimeout(draw, 500);
    };
    draw();
  }
}

/** The server says that asking again is of no use. */
function isForEver(problem: Problem): boolean {
  return problem.body.type === "urn:reel:problem:too-long";
}

/** How much of the film was played since it was loaded. */
function playedFor_s({ played }: HTMLVideoElement): number {
  let sum_s = 0;
  for (let i = 0; i < played.length; i += 1) sum_s += played.end(i) - played.start(i);
  return sum_s;
}
