import { problemFrom } from "../api/problem.ts";
import { codecName } from "../format.ts";
import { addressed } from "../root.ts";
import { h } from "../ui/dom.ts";
import type { Choice, Engine, EngineOptions, Failure, Level } from "./engine.ts";
import { recall, remember } from "./preferences.ts";
import { isRefused } from "./refusal.ts";

/** The parts of Safari's media element which TypeScript's library leaves out. */
interface AudioTrackLike {
  language: string;
  label: string;
  enabled: boolean;
}
type WithAudioTracks = HTMLVideoElement & { audioTracks?: ArrayLike<AudioTrackLike> };

/** The browser does everything: its own HLS, or one MP4 with byte ranges. */
export class PlainEngine implements Engine {
  readonly kind: "native" | "progressive";
  private readonly options: EngineOptions;
  private readonly ends = new AbortController();
  private readonly added: HTMLTrackElement[] = [];

  constructor(options: EngineOptions, kind: "native" | "progressive") {
    this.kind = kind;
    this.options = options;
    const { video, session, title } = options;
    const { signal } = this.ends;
    video.addEventListener("error", () => this.onError(), { signal });
    video.addEventListener("resize", options.changed, { signal });
    video.addEventListener("loadedmetadata", options.changed, { signal });
    if (kind === "progressive") {
      for (const track of title.subtitles) {
        const src = new URL(`${track.track}/text.vtt`, new URL(addressed(session.hls), location.href)).href;
        const element = h("track", {
          kind: "subtitles",
          src,
          srclang: track.language,
          label: track.name || track.language,
        });
        this.added.push(element);
        video.append(element);
      }
    }
    video.textTracks.addEventListener("addtrack", options.changed, { signal });
    video.textTracks.addEventListener("change", options.changed, { signal });
    video.src = addressed(kind === "native" ? session.hls : session.progressive);
    const { subtitleLanguage } = recall();
    if (subtitleLanguage) {
      const at = this.texts().findIndex((track) => track.language === subtitleLanguage);
      if (at >= 0) this.show(at);
    }
  }

  ready(): boolean {
    return true;
  }

  levels(): Level[] {
    const { videoWidth: width, videoHeight: height } = this.options.video;
    if (width === 0) return [];
    const track =
      this.options.title.video.find((v) => v.width === width && v.height === height) ??
      this.options.title.video[0];
    return [{ width, height, bitrate_bps: track?.bitrate_bps ?? 0 }];
  }

  level(): number {
    return this.levels().length - 1;
  }

  chosenLevel(): number {
    return -1;
  }

  chooseLevel(): void {
    // The browser alone decides here.
  }

  audio(): Choice[] {
    const tracks = (this.options.video as WithAudioTracks).audioTracks;
    if (tracks && tracks.length > 0) {
      return Array.from(tracks, (track) => ({
        language: track.language,
        name: track.label,
        detail: "",
        active: track.enabled,
      }));
    }
    const track = this.options.title.audio.find((a) => a.default) ?? this.options.title.audio[0];
    return track
      ? [{ language: track.language, name: track.name, detail: codecName(track.codec), active: true }]
      : [];
  }

  chooseAudio(index: number): void {
    const tracks = (this.options.video as WithAudioTracks).audioTracks;
    if (!tracks) return;
    Array.from(tracks).forEach((track, i) => {
      track.enabled = i === index;
    });
    remember({ audioLanguage: tracks[index]?.language });
    this.options.changed();
  }

  subtitles(): Choice[] {
    return this.texts().map((track) => ({
      language: track.language,
      name: track.label,
      detail: "",
      active: track.mode !== "disabled",
    }));
  }

  chooseSubtitle(index: number): void {
    this.show(index);
    remember({ subtitleLanguage: this.texts()[index]?.language });
    this.options.changed();
  }

  textTrack(): TextTrack | undefined {
    return this.texts().find((track) => track.mode === "hidden");
  }

  bandwidth_bps(): number | undefined {
    return undefined;
  }

  destroy(): void {
    this.ends.abort();
    for (const element of this.added) element.remove();
    this.options.video.removeAttribute("src");
    this.options.video.load();
  }

  private texts(): TextTrack[] {
    return [...this.options.video.textTracks].filter(
      (track) => track.kind === "subtitles" || track.kind === "captions",
    );
  }

  private show(index: number): void {
    // A phone's own full-screen player draws no page over the picture: it must draw the cues
    // itself.
    const drawnByBrowser = !document.fullscreenEnabled;
    this.texts().forEach((track, i) => {
      track.mode = i !== index ? "disabled" : drawnByBrowser ? "showing" : "hidden";
    });
  }

  private onError(): void {
    const error = this.options.video.error;
    const detail = error?.message ?? "";
    if (error?.code === MediaError.MEDIA_ERR_NETWORK)
      void this.tellMissingFrom({ reason: "network", detail });
    else if (error?.code === MediaError.MEDIA_ERR_SRC_NOT_SUPPORTED)
      void this.tellMissingFrom({ reason: "unsupported", detail });
    else this.options.failed({ reason: "media", detail });
  }

  /**
   * A media element gives the same error for bytes it cannot decode, for bytes that stop, and for a
   * refusal.
   */
  private async tellMissingFrom(otherwise: Failure): Promise<void> {
    // One byte, since only a request for media is refused; the rest is not waited for.
    const answer = await fetch(this.options.video.currentSrc, { headers: { range: "bytes=0-0" } }).catch(
      () => undefined,
    );
    const text = answer && !answer.ok ? await answer.text().catch(() => "") : "";
    if (this.ends.signal.aborted) return;
    const status = answer?.status ?? 0;
    if (answer && isRefused(status)) {
      this.options.failed({
        reason: "refused",
        problem: problemFrom(
          status,
          answer.headers.get("content-type"),
          text,
          answer.headers.get("retry-after"),
        ),
      });
      return;
    }
    if (status === 404 || status === 410 || status === 403) this.options.failed({ reason: "session-gone" });
    else if (status === 0 || status >= 500)
      this.options.failed({ reason: "network", detail: "The server does not answer." });
    else this.options.failed(otherwise);
  }
}
