import type { Problem } from "../api/problem.ts";
import type { ResourceCode } from "../api/types.ts";
import { bitRate, bytes } from "../format.ts";

/** How long to wait when the server does not say. */
const DEFAULT_RETRY_S = 10;

export interface Refusal {
  heading: string;
  lines: string[];
  retry_s: number;
}

/** Statuses of a refusal: the server has no room, or this client has its share. */
const REFUSED = [503, 429];

/** Whether a title or a segment was refused. */
export function isRefused(status: number | undefined): boolean {
  return status !== undefined && REFUSED.includes(status);
}

/**
 * A title was refused: what there is too little of, by how much, what would have been
 * possible. Pure.
 */
export function explainRefusal(problem: Problem): Refusal {
  const { resource, member, asked, available, grantable_rate_bps } = problem.body;
  const lines: string[] = [];
  const isOfClient = problem.status === 429;
  if (isOfClient) {
    lines.push("Other viewers at your address are sent as much as one address may have.");
  } else if (resource && asked !== undefined && available !== undefined) {
    const name = nameOf(resource, member);
    const free = available > 0 ? `${amount(resource, available)} is left` : "nothing is left";
    const time = isTime(resource) ? " in each second" : "";
    lines.push(
      `${name} is reserved for other viewers: this film needs ${amount(resource, asked)}${time}, and ${free}.`,
    );
  } else if (problem.detail) {
    lines.push(problem.detail);
  }
  if (grantable_rate_bps !== undefined && grantable_rate_bps > 0)
    lines.push(`A stream of up to ${bitRate(grantable_rate_bps)} could start now.`);
  lines.push("Reel starts a film only when it can promise that it will not stall.");
  return {
    heading: isOfClient
      ? "Your address has its share of the server"
      : "There is no capacity for one more viewer at the moment",
    lines,
    retry_s: Math.min(3600, Math.max(1, Math.ceil(problem.retryAfterS ?? DEFAULT_RETRY_S))),
  };
}

/**
 * Time of disks and processors comes in nanoseconds of one second, the network in bytes of one
 * second, memory in bytes.
 */
function amount(resource: ResourceCode, value: number): string {
  switch (resource) {
    case "disk":
    case "disk-bytes":
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

function isTime(resource: ResourceCode): boolean {
  return resource === "disk" || resource === "disk-bytes" || resource === "processor";
}

function milliseconds(ns: number): string {
  const ms = ns / 1e6;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** As a sentence begins with it. */
function nameOf(resource: ResourceCode, member: number | undefined): string {
  switch (resource) {
    case "disk":
    case "disk-bytes":
      return member === undefined ? "A disk" : `Disk ${member}`;
    case "network":
      return "The network";
    case "processor":
      return "The processor";
    case "memory":
      return "The server's memory";
    case "sessions":
      return "The table of sessions";
    default:
      return `The server's ${resource satisfies never}`;
  }
}
