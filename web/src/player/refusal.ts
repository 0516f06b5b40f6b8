import type { Problem } from "../api/problem.ts";
import { bitRate, bytes } from "../format.ts";

/** How long to wait when the server does not say. */
const DEFAULT_RETRY_S = 10;

export interface Refusal {
  heading: string;
  lines: string[];
  retry_s: number;
}

/** A film was refused (503): what is short, by how much, what would have been possible. Pure. */
export function explainRefusal(problem: Problem): Refusal {
  const { resource, asked, available, grantable_rate_bps, detail } = problem.body;
  const lines: string[] = [];
  if (resource && asked !== undefined && available !== undefined) {
    const name = nameOf(resource);
    const free = available > 0 ? `${amount(resource, available)} is left` : "nothing is left";
    const time = isTime(resource) ? " of each second of its time" : "";
    lines.push(
      `${name} is booked by those who are watching: this film needs ${amount(resource, asked)}${time}, and ${free}.`,
    );
  } else if (resource) {
    lines.push(`${nameOf(resource)} is booked by those who are watching.`);
  } else if (detail) {
    lines.push(detail);
  }
  if (grantable_rate_bps !== undefined && grantable_rate_bps > 0)
    lines.push(`A stream of up to ${bitRate(grantable_rate_bps)} could start now.`);
  lines.push("Reel starts a film only when it can promise that it will not stall.");
  return {
    heading: "There is no room for one more viewer just now",
    lines,
    retry_s: Math.min(3600, Math.max(1, Math.ceil(problem.retryAfterS ?? DEFAULT_RETRY_S))),
  };
}

/** Time of disks and processors comes in nanoseconds of one second, the network in bytes of one second, memory in bytes. */
function amount(resource: string, value: number): string {
  switch (kindOf(resource)) {
    case "disk":
    case "processor":
      return milliseconds(value);
    case "network":
      return bitRate(value * 8);
    case "memory":
      return bytes(value);
    default:
      return value.toLocaleString("en");
  }
}

function isTime(resource: string): boolean {
  const kind = kindOf(resource);
  return kind === "disk" || kind === "processor";
}

function milliseconds(ns: number): string {
  const ms = ns / 1e6;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** As a sentence begins with it. */
function nameOf(resource: string): string {
  const kind = kindOf(resource);
  const member = /\d+/.exec(resource)?.[0];
  if (kind === "disk") return member === undefined ? "A disk" : `Disk ${member}`;
  return {
    network: "The network",
    memory: "The server's memory",
    processor: "The processor",
    other: resource,
  }[kind];
}

function kindOf(resource: string): "disk" | "network" | "memory" | "processor" | "other" {
  if (/member|disk/i.test(resource)) return "disk";
  if (/network/i.test(resource)) return "network";
  if (/memory|arena/i.test(resource)) return "memory";
  if (/processor|core/i.test(resource)) return "processor";
  return "other";
}
