import type { Title } from "../api/types.ts";
import { bitRate, codecName } from "../format.ts";
import { h } from "../ui/dom.ts";
import type { Engine } from "./engine.ts";
import type { StallMeter } from "./stalls.ts";

const ways = { hls: "HLS through hls.js", native: "HLS by the browser", progressive: "One MP4" } as const;

/** Figures of what is being played; stalls are counted, not hidden. */
export function showStatistics(
  list: HTMLElement,
  video: HTMLVideoElement,
  title: Title,
  engine: Engine,
  stalls: StallMeter,
): void {
  const level = engine.levels()[engine.level()];
  const frames = video.getVideoPlaybackQuality?.();
  const bandwidth = engine.bandwidth_bps();
  const rows: [string, string][] = [
    ["Delivery", ways[engine.kind]],
    [
      "Picture",
      video.videoWidth > 0
        ? `${video.videoWidth}×${video.videoHeight} ${codecName(title.video[0]?.codec ?? "")}`
        : "none",
    ],
    ["Bit rate", level && level.bitrate_bps > 0 ? bitRate(level.bitrate_bps) : "unknown"],
    ["Buffer", `${ahead_s(video).toFixed(1)} s ahead`],
    ["Network", bandwidth ? `${bitRate(bandwidth)} measured` : "not measured"],
    ["Frames", frames ? `${frames.totalVideoFrames}, ${frames.droppedVideoFrames} dropped` : "unknown"],
    [
      "Stalls",
      stalls.count === 0 ? "none" : `${stalls.count}, ${(stalls.total_ms / 1000).toFixed(1)} s in all`,
    ],
  ];
  list.replaceChildren(...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Seconds that would play if nothing more came. */
export function ahead_s(video: HTMLVideoElement): number {
  for (let i = 0; i < video.buffered.length; i += 1) {
    if (video.buffered.start(i) <= video.currentTime + 0.1 && video.buffered.end(i) > video.currentTime)
      return video.buffered.end(i) - video.currentTime;
  }
  return 0;
}
