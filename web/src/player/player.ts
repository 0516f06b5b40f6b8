import { closeSession, openSession } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Session, Title } from "../api/types.ts";
import { clock } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { installControls, type Actions } from "./controls.ts";
import { startEngine, type Engine, type Failure } from "./engine.ts";
import { showHelp } from "./help.ts";
import { installMenus, showChoices } from "./menus.ts";
import { failureWords, showFailure, showRefusal } from "./messages.ts";
import { forgetPosition, loadPosition, savePosition } from "./resume.ts";
import { makeStage, type Stage } from "./stage.ts";
import { StallMeter } from "./stalls.ts";
import { showStatistics } from "./statistics.ts";
import { announceMedia } from "./system.ts";
import { installWaiting } from "./waiting.ts";

const SAVE_MS = 5000;
const NOTE_MS = 8000;
/** A session that is gone this often within one visit is a fault of the server, not an expiry. */
const RENEWALS = 3;

/** One film on its stage, from the session's opening to its return. */
export class Player {
  readonly stage: Stage;
  private readonly title: Title;
  private readonly signal: AbortSignal;
  private readonly stalls = new StallMeter();
  private session: Session | undefined;
  private engine: Engine | undefined;
  private renewals = 0;
  private busy = false;
  /** What the viewer chose before and while the film was opened anew, for the engine to come. */
  private chosen: ((engine: Engine) => void)[] = [];

  constructor(title: Title, signal: AbortSignal) {
    this.title = title;
    this.signal = signal;
    this.stage = makeStage(title.name, (at_s) => this.seek(at_s));
    const { video } = this.stage;
    const actions: Actions = {
      duration_s: () => this.duration_s(),
      seek: (at_s) => this.seek(at_s),
      play: () => this.play(),
      toggleSubtitles: () => this.toggleSubtitles(),
      statistics: () => this.toggleStatistics(),
      help: () => showHelp(this.stage.element),
    };
    const { setSpeed } = installControls(this.stage, actions, signal);
    installMenus(this.stage, () => this.engine, (choice) => this.choose(choice), setSpeed);
    showChoices(this.stage, undefined);
    installWaiting(this.stage, this.stalls, signal);
    announceMedia(title, video, actions, signal);

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
    if (left) this.showResumed(left.at_s);
    // Without a press or key anywhere on the site browsers refuse sound; the large button then waits for one.
    void this.open(left?.at_s ?? 0, navigator.userActivation?.hasBeenActive ?? true);
  }

  private async open(at_s: number, playing: boolean): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    const { message, element } = this.stage;
    element.setAttribute("data-loading", "");
    try {
      // Not given up when the page is left: what the server reserves meanwhile has to be given back.
      const session = await openSession(this.title.id);
      if (this.signal.aborted) {
        closeSession(session.key);
        return;
      }
      this.session = session;
      const engine = await startEngine({
        video: this.stage.video,
        title: this.title,
        session,
        start_s: at_s,
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
      if (playing) this.play();
    } catch (error) {
      if (this.signal.aborted) return;
      const problem = asProblem(error);
      element.removeAttribute("data-loading");
      const again = () => void this.open(at_s, true);
      if (problem.status === 503) showRefusal(message, problem, again, this.signal);
      else showFailure(message, problem, problem.status === 404 ? undefined : again);
    } finally {
      this.busy = false;
    }
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
    // Not before the engine has gone through its event: hls.js then makes its own first choice.
    for (const choice of this.chosen.splice(0)) queueMicrotask(() => this.choose(choice));
  }

  private failed(failure: Failure): void {
    if (this.busy || this.signal.aborted || !this.engine) return;
    const { video } = this.stage;
    const at_s = video.currentTime;
    const playing = !video.paused;
    // Sound and subtitles are remembered for every film; a quality only for this one.
    const level = this.engine.chosenLevel();
    if (level >= 0) this.chosen.push((engine) => engine.chooseLevel(level));
    this.save();
    this.leave();
    if (failure.reason === "session-gone" && this.renewals < RENEWALS) {
      this.renewals += 1;
      void this.open(at_s, playing);
      return;
    }
    this.stage.element.removeAttribute("data-loading");
    const again = () => {
      this.renewals = 0;
      void this.open(at_s, true);
    };
    if (failure.reason === "refused") {
      showRefusal(this.stage.message, failure.problem, again, this.signal);
      return;
    }
    showFailure(this.stage.message, failureWords(failure, this.title), failure.reason === "unsupported" ? undefined : again);
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
      // Refused for want of a press: the large button shows. Any other cause comes as the engine's failure.
    });
  }

  private seek(at_s: number): void {
    const { video } = this.stage;
    // The very end would close the film; half a second before it shows its last pictures.
    video.currentTime = Math.max(0, Math.min(at_s, Math.max(0, this.duration_s() - 0.5)));
    this.stage.note.hidden = true;
  }

  private duration_s(): number {
    const { duration } = this.stage.video;
    return Number.isFinite(duration) && duration > 0 ? duration : this.title.duration_s;
  }

  private save(): void {
    const { video } = this.stage;
    // Before the first picture the element stands at zero, which would wipe out the position to resume.
    if (video.readyState >= 1 && video.currentTime > 0 && !video.ended) savePosition(this.title.id, { at_s: video.currentTime, of_s: this.duration_s() });
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
    this.stage.video.addEventListener("playing", () => setTimeout(() => (note.hidden = true), NOTE_MS), { once: true, signal: this.signal });
  }

  private toggleSubtitles(): string {
    const choices = this.engine?.subtitles() ?? [];
    if (!this.engine || choices.length === 0) return "No subtitles in this title";
    const active = choices.findIndex((choice) => choice.active);
    this.engine.chooseSubtitle(active >= 0 ? -1 : Math.max(0, choices.findIndex((choice) => choice.detail !== "forced")));
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
