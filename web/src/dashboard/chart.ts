/** The slack of one disk over the last two minutes, drawn as SVG. */

import { svg } from "../ui/dom.ts";

export const SPAN_S = 120;
const WIDTH = 240;
const HEIGHT = 64;

export interface Sample {
  at_s: number;
  slack_ms: number;
  least_ms: number;
}

/**
 * Keeps what the chart still shows. A server that restarted counts from another zero: then all is
 * new.
 */
export function keep(samples: Sample[], next: Sample): Sample[] {
  const last = samples.at(-1);
  if (last && next.at_s < last.at_s) return [next];
  const kept = last?.at_s === next.at_s ? samples.slice(0, -1) : samples;
  return [...kept, next].filter(({ at_s }) => at_s >= next.at_s - SPAN_S);
}

/** The points of a line in a box of this size, the newest at the right edge. Pure. */
export function points(
  samples: Sample[],
  value: (sample: Sample) => number,
  low: number,
  high: number,
): string {
  const now_s = samples.at(-1)?.at_s ?? 0;
  return samples
    .map((sample) => {
      const x = WIDTH - ((now_s - sample.at_s) / SPAN_S) * WIDTH;
      const y = HEIGHT - ((Math.min(high, Math.max(low, value(sample))) - low) / (high - low)) * HEIGHT;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}

/** An empty chart, and how to draw into it. `round_ms` is the most that slack can be. */
export function makeChart(): {
  element: SVGElement;
  draw(samples: Sample[], round_ms: number, label: string): void;
} {
  const area = svg("polygon", { class: "chart-area" });
  const least = svg("polyline", { class: "chart-least" });
  const slack = svg("polyline", { class: "chart-slack" });
  const zero = svg("line", { x1: 0, x2: WIDTH, class: "chart-zero" });
  const element = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "chart" },
    area,
    zero,
    least,
    slack,
  );
  return {
    element,
    draw(samples, round_ms, label) {
      const low = Math.min(0, ...samples.map(({ least_ms, slack_ms }) => Math.min(least_ms, slack_ms)));
      const high = Math.max(round_ms, ...samples.map(({ slack_ms }) => slack_ms));
      const line = points(samples, ({ slack_ms }) => slack_ms, low, high);
      const y0 = (HEIGHT - ((0 - low) / (high - low)) * HEIGHT).toFixed(1);
      const first = line.slice(0, line.indexOf(","));
      slack.setAttribute("points", line);
      area.setAttribute("points", `${first},${y0} ${line} ${WIDTH},${y0}`);
      least.setAttribute(
        "points",
        points(samples, ({ least_ms }) => least_ms, low, high),
      );
      zero.setAttribute("y1", y0);
      zero.setAttribute("y2", y0);
      element.setAttribute("aria-label", label);
    },
  };
}
