import Hls, {
  type ErrorData,
  ErrorDetails,
  ErrorTypes,
  Events,
  type HlsConfig,
  type Level as HlsLevel,
  type LoadPolicy,
  type MediaPlaylist,
} from "hls.js";
import { type Problem, problemFrom } from "../api/problem.ts";
import { channelLabel, codecName } from "../format.ts";
import { addressed } from "../root.ts";
import type { Choice, Engine, EngineOptions, Level } from "./engine.ts";
import { recall, remember } from "./preferences.ts";
import { isRefused } from "./refusal.ts";
import { ahead_s } from "./statistics.ts";
import { TextTracks } from "./texttracks.ts";

/** A refused segment is requested once more so long before the buffer ends. */
const LAST_TRY_S = 1;

/** The shortest time between two requests for a refused segment. */
const MIN_RETRY_S = 1;

/**
 * A quality that was chosen is shown after this time at the latest. Where hls.js expects that its
 * first segment takes longer than the buffer lasts, it changes nothing before the buffer's end.
 */
const SWITCH_MAX_S = 10;

/**
 * The rate that a first visit assumes until it is measured: enough to start at 1080p on a home
 * network.
 */
const FIRST_BANDWIDTH_BPS = 8_000_000;

/**
 * How segments are loaded: as hls.js does by default, except that a refused segment is not
 * requested again. The server will not have room for this quality in a second, but may have room
 * for a lower one, which hls.js then takes. hls.js tries a higher one after half a minute.
 */
const segmentPolicy: LoadPolicy = {
  default: {
    maxTimeToFirstByteMs: 10_000,
    maxLoadTimeMs: 120_000,
    timeoutRetry: { maxNumRetry: 4, retryDelayMs: 0, maxRetryDelayMs: 0 },
    errorRetry: {
      maxNumRetry: 6,
      retryDelayMs: 1000,
      maxRetryDelayMs: 8000,
      shouldRetry: (_config, _count, _timeout, response, retry) => retry && !isRefused(response?.code),
    },
  },
};

/** hls.js over Media Source Extensions. */
export class HlsEngine implements Engine {
  readonly kind = "hls";
  private readonly hls: Hls;
  private readonly options: EngineOptions;
  private readonly texts: TextTracks;
  private recoveries = 0;
  private wanted = -1;
  private again: ReturnType<typeof setTimeout> | undefined;
  private overdue: ReturnType<typeof setTimeout> | undefined;
  /** Whether the picture stood still while a refused segment was waited for. */
  private stood = false;

  constructor(options: EngineOptions) {
    this.options = options;
    this.texts = new TextTracks(options.video);
    const { audioLanguage, subtitleLanguage, bandwidth_bps } = recall();
    const config: Partial<HlsConfig> = {
      fragLoadPolicy: segmentPolicy,
      startPosition: options.start_s > 0 ? options.start_s : -1,
      // A phone does not load lines it cannot show.
      capLevelToPlayerSize: true,
      abrEwmaDefaultEstimate: bandwidth_bps ?? FIRST_BANDWIDTH_BPS,
      abrEwmaDefaultEstimateMax: 50_000_000,
      backBufferLength: 60,
      maxBufferLength: 30,
      renderTextTracksNatively: false,
      enableDateRangeMetadataCues: false,
      enableEmsgMetadataCues: false,
      enableID3MetadataCues: false,
      ...(audioLanguage ? { audioPreference: { lang: audioLanguage } } : {}),
      ...(subtitleLanguage ? { subtitlePreference: { lang: subtitleLanguage } } : {}),
    };
    const hls = new Hls(config);
    this.hls = hls;
    const { changed } = options;
    hls.on(Events.MANIFEST_PARSED, () => {
      if (audioLanguage) this.startWith(audioLanguage, bandwidth_bps ?? FIRST_BANDWIDTH_BPS);
      changed();
    });
    hls.on(Events.LEVEL_SWITCHED, changed);
    hls.on(Events.AUDIO_TRACKS_UPDATED, changed);
    hls.on(Events.AUDIO_TRACK_SWITCHED, changed);
    hls.on(Events.SUBTITLE_TRACKS_UPDATED, () => {
      // Subtitles are shown only if they were chosen once, whatever the playlist marks as default.
      if (!subtitleLanguage) hls.subtitleTrack = -1;
      changed();
    });
    hls.on(Events.SUBTITLE_TRACK_SWITCH, () => {
      this.texts.select(hls.subtitleTrack);
      changed();
    });
    hls.on(Events.CUES_PARSED, (_, data) => {
      const track = data.subtitleTrack;
      if (!track) return;
      this.texts.add(track.id, track.name, track.lang ?? "", data.cues as VTTCue[]);
      this.texts.select(hls.subtitleTrack);
      changed();
    });
    hls.on(Events.ERROR, (_, data) => this.onError(data));
    hls.loadSource(addressed(options.session.hls));
    hls.attachMedia(options.video);
  }

  ready(): boolean {
    const { levels, allAudioTracks, audioTracks, allSubtitleTracks, subtitleTracks } = this.hls;
    // The playlist names them all at once, but hls.js takes a choice only among those of the level
    // it begins with.
    return (
      levels.length > 0 &&
      audioTracks.length > 0 === allAudioTracks.length > 0 &&
      subtitleTracks.length > 0 === allSubtitleTracks.length > 0
    );
  }

  levels(): Level[] {
    return this.shown().map(({ level: { width, height, bitrate } }) => ({
      width,
      height,
      bitrate_bps: bitrate,
    }));
  }

  level(): number {
    return this.shown().findIndex(({ at }) => at === this.hls.currentLevel);
  }

  chosenLevel(): number {
    return this.shown().findIndex(({ at }) => at === this.wanted);
  }

  chooseLevel(index: number): void {
    this.wanted = this.shown()[index]?.at ?? -1;
    clearTimeout(this.overdue);
    if (this.wanted < 0) this.hls.loadLevel = -1;
    else this.switchTo(this.wanted);
    this.options.changed();
  }

  audio(): Choice[] {
    const now = this.hls.audioTracks[this.hls.audioTrack];
    return this.heard().map((track) => ({
      language: track.lang ?? "",
      name: track.name,
      detail: [
        track.channels ? channelLabel(Number.parseInt(track.channels, 10)) : "",
        track.audioCodec ? codecName(track.audioCodec) : "",
      ]
        .filter(Boolean)
        .join(" "),
      active: track.url === now?.url,
    }));
  }

  chooseAudio(index: number): void {
    const { hls } = this;
    const track = this.heard()[index];
    if (!track) return;
    remember({ audioLanguage: track.lang });
    const inGroup = hls.audioTracks.findIndex(({ url }) => url === track.url);
    if (inGroup >= 0) {
      hls.audioTrack = inGroup;
      return;
    }
    // A track of another codec is in another group, which only other variants of the same pictures
    // have.
    hls.setAudioOption(track);
    if (this.wanted < 0) return;
    const height = hls.levels[this.wanted]?.height;
    const twin = hls.levels.findIndex(
      (level) => level.height === height && level.hasAudioGroup(track.groupId),
    );
    if (twin < 0) return;
    this.wanted = twin;
    this.switchTo(twin);
  }

  subtitles(): Choice[] {
    return this.hls.subtitleTracks.map((track, index) => ({
      language: track.lang ?? "",
      name: track.name,
      detail: track.forced ? "forced" : "",
      active: index === this.hls.subtitleTrack,
    }));
  }

  chooseSubtitle(index: number): void {
    this.hls.subtitleTrack = index;
    remember({ subtitleLanguage: this.hls.subtitleTracks[index]?.lang });
  }

  textTrack(): TextTrack | undefined {
    return this.texts.get(this.hls.subtitleTrack);
  }

  bandwidth_bps(): number | undefined {
    return this.hls.bandwidthEstimate;
  }

  destroy(): void {
    const measured = this.hls.bandwidthEstimate;
    if (Number.isFinite(measured) && measured > 0) remember({ bandwidth_bps: Math.round(measured) });
    clearTimeout(this.again);
    clearTimeout(this.overdue);
    this.hls.destroy();
    this.texts.clear();
  }

  /**
   * Begins in the group of the wanted language: hls.js looks for it only among the tracks of the
   * level it starts with.
   */
  private startWith(language: string, bandwidth_bps: number): void {
    const { hls } = this;
    const group = this.heard().find((track) => track.lang === language)?.groupId;
    const levels = hls.levels
      .map((level, at) => ({ level, at }))
      .filter(({ level }) => level.hasAudioGroup(group));
    if (group === undefined || levels.length === hls.levels.length) return;
    const byRate = levels.sort((a, b) => a.level.bitrate - b.level.bitrate);
    const start = byRate.findLast(({ level }) => level.bitrate <= bandwidth_bps * 0.8) ?? byRate[0];
    if (start) hls.startLevel = start.at;
  }

  private switchTo(at: number): void {
    const { hls } = this;
    clearTimeout(this.overdue);
    // While the picture stands the switch shows at once; while it moves it comes at a segment's
    // border, without a gap.
    if (this.options.video.paused) {
      hls.currentLevel = at;
      return;
    }
    hls.nextLevel = at;
    this.overdue = setTimeout(() => {
      if (this.wanted === at && hls.currentLevel !== at) hls.currentLevel = at;
    }, SWITCH_MAX_S * 1000);
  }

  /**
   * The levels to choose from, each with its number in hls.js: those with the group of the sound
   * now heard.
   */
  private shown(): { level: HlsLevel; at: number }[] {
    const { hls } = this;
    const group = hls.audioTracks[hls.audioTrack]?.groupId;
    const all = hls.levels.map((level, at) => ({ level, at }));
    return group === undefined ? all : all.filter(({ level }) => level.hasAudioGroup(group));
  }

  /**
   * The sound tracks of all groups that this browser can play: hls.js has dropped the levels it
   * cannot.
   */
  private heard(): MediaPlaylist[] {
    return this.hls.allAudioTracks.filter((track) =>
      this.hls.levels.some((level) => level.hasAudioGroup(track.groupId)),
    );
  }

  /**
   * Nothing more arrives for now. What is buffered plays on; just before its end the segment is
   * requested once more. hls.js does not load in between: its own tries come up to eight seconds
   * apart and outlast the buffer.
   */
  private refused(problem: Problem): void {
    const { video } = this.options;
    const left_s = ahead_s(video) - LAST_TRY_S;
    // Chromium does not always play what it has to the end, above all when it plays fast: it waits
    // for more.
    const stands = this.stood && video.readyState < HTMLMediaElement.HAVE_FUTURE_DATA;
    if (left_s <= 0 || stands) {
      this.options.failed({ reason: "refused", problem });
      return;
    }
    this.stood = false;
    this.hls.stopLoad();
    clearTimeout(this.again);
    const wait_s = Math.min(left_s / (video.playbackRate || 1), problem.retryAfterS ?? left_s);
    const at_s = video.currentTime;
    this.again = setTimeout(() => {
      this.stood = !video.paused && video.currentTime === at_s;
      this.hls.startLoad();
    }, Math.max(wait_s, MIN_RETRY_S) * 1000);
  }

  private onError(data: ErrorData): void {
    const status = data.response?.code;
    if (data.type === ErrorTypes.NETWORK_ERROR && (status === 404 || status === 410 || status === 403)) {
      this.options.failed({ reason: "session-gone" });
      return;
    }
    if (isRefused(status) && this.wanted >= 0) {
      // hls.js chooses the level again; the menu shows it.
      this.wanted = -1;
      this.options.changed();
    }
    if (status !== undefined && isRefused(status) && (data.fatal || hasNoOtherLevel(data))) {
      this.refused(refusalOf(status, data.networkDetails));
      return;
    }
    if (!data.fatal) return;
    if (
      data.details === ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR ||
      data.details === ErrorDetails.BUFFER_ADD_CODEC_ERROR
    ) {
      this.options.failed({ reason: "unsupported", detail: data.error.message });
    } else if (data.type === ErrorTypes.MEDIA_ERROR && this.recoveries < 2) {
      this.recoveries += 1;
      this.hls.recoverMediaError();
    } else if (data.type === ErrorTypes.NETWORK_ERROR) {
      this.options.failed({
        reason: "network",
        detail: status ? `The server answered ${status}.` : "The server does not answer.",
      });
    } else {
      this.options.failed({ reason: "media", detail: data.error.message });
    }
  }
}

/** A segment failed, and hls.js knows no level that it could take instead. */
function hasNoOtherLevel({ frag, errorAction }: ErrorData): boolean {
  return frag !== undefined && errorAction?.nextAutoLevel === undefined;
}

/** The problem document that came in the place of a segment. */
function refusalOf(status: number, details: unknown): Problem {
  if (!(details instanceof XMLHttpRequest)) return problemFrom(status, null, "", null);
  const text = details.response instanceof ArrayBuffer ? new TextDecoder().decode(details.response) : "";
  return problemFrom(
    status,
    details.getResponseHeader("content-type"),
    text,
    details.getResponseHeader("retry-after"),
  );
}
