import Hls, { ErrorDetails, ErrorTypes, Events, type ErrorData, type HlsConfig } from "hls.js";
import { channelLabel, codecName } from "../format.ts";
import type { Choice, Engine, EngineOptions, Level } from "./engine.ts";
import { recall, remember } from "./preferences.ts";
import { TextTracks } from "./texttracks.ts";

/** What a first visit assumes of the way to the server, until it is measured: enough to start at 1080p on a home network. */
const FIRST_BANDWIDTH_BPS = 8_000_000;

/** hls.js over Media Source Extensions. */
export class HlsEngine implements Engine {
  readonly kind = "hls";
  private readonly hls: Hls;
  private readonly options: EngineOptions;
  private readonly texts: TextTracks;
  private recoveries = 0;
  private wanted = -1;

  static supported(): boolean {
    return Hls.isSupported();
  }

  constructor(options: EngineOptions) {
    this.options = options;
    this.texts = new TextTracks(options.video);
    const { audioLanguage, subtitleLanguage, bandwidth_bps } = recall();
    const config: Partial<HlsConfig> = {
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
    hls.on(Events.MANIFEST_PARSED, changed);
    hls.on(Events.LEVEL_SWITCHED, changed);
    hls.on(Events.AUDIO_TRACKS_UPDATED, changed);
    hls.on(Events.AUDIO_TRACK_SWITCHED, changed);
    hls.on(Events.SUBTITLE_TRACKS_UPDATED, () => {
      // Subtitles are shown only to who asked for them once, whatever the playlist marks as default.
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
    hls.loadSource(options.session.hls);
    hls.attachMedia(options.video);
  }

  levels(): Level[] {
    return this.hls.levels.map(({ width, height, bitrate }) => ({ width, height, bitrate_bps: bitrate }));
  }

  level(): number {
    return this.hls.currentLevel;
  }

  chosenLevel(): number {
    return this.wanted;
  }

  chooseLevel(index: number): void {
    this.wanted = index;
    if (index < 0) this.hls.loadLevel = -1;
    // While the picture stands the switch shows at once; while it moves it comes at a segment's border, without a gap.
    else if (this.options.video.paused) this.hls.currentLevel = index;
    else this.hls.nextLevel = index;
    this.options.changed();
  }

  audio(): Choice[] {
    return this.hls.audioTracks.map((track, index) => ({
      language: track.lang ?? "",
      name: track.name,
      detail: [track.channels ? channelLabel(Number.parseInt(track.channels, 10)) : "", track.audioCodec ? codecName(track.audioCodec) : ""].filter(Boolean).join(" "),
      active: index === this.hls.audioTrack,
    }));
  }

  chooseAudio(index: number): void {
    this.hls.audioTrack = index;
    remember({ audioLanguage: this.hls.audioTracks[index]?.lang });
  }

  subtitles(): Choice[] {
    return this.hls.subtitleTracks.map((track, index) => ({ language: track.lang ?? "", name: track.name, detail: track.forced ? "forced" : "", active: index === this.hls.subtitleTrack }));
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
    this.hls.destroy();
    this.texts.clear();
  }

  private onError(data: ErrorData): void {
    const status = data.response?.code;
    if (data.type === ErrorTypes.NETWORK_ERROR && (status === 404 || status === 410 || status === 403)) {
      this.options.failed({ reason: "session-gone" });
      return;
    }
    if (!data.fatal) return;
    if (data.details === ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR || data.details === ErrorDetails.BUFFER_ADD_CODEC_ERROR) {
      this.options.failed({ reason: "unsupported", detail: data.error.message });
    } else if (data.type === ErrorTypes.MEDIA_ERROR && this.recoveries < 2) {
      this.recoveries += 1;
      this.hls.recoverMediaError();
    } else if (data.type === ErrorTypes.NETWORK_ERROR) {
      this.options.failed({ reason: "network", detail: status ? `The server answered ${status}.` : "The server does not answer." });
    } else {
      this.options.failed({ reason: "media", detail: data.error.message });
    }
  }
}
