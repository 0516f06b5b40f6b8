/** What is said of casts. Pure. */

import type { Problem } from "../api/problem.ts";
import type { Cast } from "../api/types.ts";
import { bitRate, clock, count } from "../format.ts";

const stages = {
  starting: "Starting",
  "on-air": "On the air",
  waiting: "Waiting",
  ended: "Ended",
} as const;

export function stageWords(cast: Cast): string {
  return stages[cast.state] ?? cast.state;
}

/** What all groups are sent on average: media and FEC, without headers. */
export function sentBps(cast: Pick<Cast, "rate_bps" | "schedule" | "fec">): number {
  const media_bps = cast.schedule?.bandwidth_bps ?? cast.rate_bps;
  return cast.fec ? media_bps * (1 + 1 / cast.fec.rows) : media_bps;
}

/** "4.0 Mb/s, 5.0 Mb/s with FEC 20 × 4" */
export function rateWords(cast: Cast): string {
  const { fec, rate_bps, schedule } = cast;
  const media = bitRate(schedule?.bandwidth_bps ?? rate_bps);
  if (!fec) return `${media}, without FEC`;
  return `${media}, ${bitRate(sentBps(cast))} with FEC ${fec.columns} × ${fec.rows}`;
}

/** "239.1.1.1:5000", or "239.1.1.1:5000 and the next 4 addresses" */
export function groupWords(cast: Cast): string {
  const more = (cast.schedule?.channels ?? 1) - 1;
  if (more <= 0) return cast.group;
  return `${cast.group} and the next ${more === 1 ? "address" : `${more} addresses`}`;
}

/** "rfs: 36 segments on 5 channels, slots of 10 s"; to one group, how often it is sent. */
export function schemeWords(cast: Cast): string {
  const { schedule } = cast;
  const films = cast.playlist ? `${count(cast.playlist.length, "film")} ` : "";
  if (!schedule) return films + (cast.loop ? "in a loop" : "once");
  const { scheme, segments, channels, slot_s } = schedule;
  return `${scheme}: ${count(segments, "segment")} on ${count(channels, "channel")}, slots of ${duration(slot_s)}`;
}

/** How long a client waits until it shows something. */
export function waitWords(cast: Cast): string {
  const { schedule } = cast;
  if (!schedule) return "none";
  const longest = `at most ${duration(schedule.wait_s)}`;
  if (schedule.scheme !== "staggered") return longest;
  return `${longest}; other programs at most ${duration(schedule.slot_s)} until a channel begins the film`;
}

/** "0:31 of 12:22" */
export function positionWords(cast: Cast): string {
  return `${clock(cast.position_s)} of ${clock(cast.duration_s)}`;
}

/** "then Tide", "then again"; nothing after the last film. */
export function nextWords(cast: Cast, nameOf: (id: string) => string): string {
  const { playlist, playlist_place = 0, loop } = cast;
  if (!playlist) return loop ? "then again" : "";
  const next = playlist[playlist_place + 1] ?? (loop ? playlist[0] : undefined);
  return next === undefined ? "" : `then ${nameOf(next)}`;
}

/** 4.93 s -> "4.9 s"; 60 s -> "60 s"; 400 s -> "6:40 min". */
export function duration(seconds: number): string {
  if (seconds >= 120) return `${clock(seconds)} min`;
  return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
}

/** Why a cast was refused, and what would have been granted. */
export function refusalWords(problem: Problem): string {
  const { grantable_rate_bps } = problem.body;
  const sentence = problem.sentence.replace(/\.?$/, ".");
  if (grantable_rate_bps === undefined) return problem.sentence;
  if (grantable_rate_bps === 0) return `${sentence} No rate could be granted now.`;
  return `${sentence} A stream of up to ${bitRate(grantable_rate_bps)} could be granted now.`;
}

/** How many casts there are and what they send. */
export function tallyWords(casts: Cast[]): string {
  const sent = casts.filter(({ state }) => state === "on-air");
  const rate_bps = sent.reduce((sum, cast) => sum + sentBps(cast), 0);
  const parts = [`${sent.length} of ${count(casts.length, "cast")} on the air`];
  if (sent.length > 0) parts.push(bitRate(rate_bps));
  return parts.join(" · ");
}
