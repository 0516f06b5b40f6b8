import type { Problem } from "../api/problem.ts";
import { bitRate, bytes } from "../format.ts";

/** How long to wait when the server does not say. */
const DEFAULT_RETRY_S = 10;

export interface Refusal {
  heading: string;
  lines: string[];
  retry_s: number;
}

/** A session was refused (503): what is short, by how much, what would have been possible. Pure. */
export function explainRefusal(problem: Problem): Refusal {
  const { resource, asked, available, grantable_rate, detail } = problem.body;
  const lines: string[] = [];
  if (resource && asked !== undefined && available !== undefined) {
    lines.push(`This film needs ${amount(resource, asked)} ${place(resource)}; ${available > 0 ? `${amount(resource, available)} is` : "nothing is"} free.`);
  } else if (resource) {
    lines.push(`One more viewer would need more ${place(resource)} than is free.`);
  }
  if (grantable_rate !== undefined && grantable_rate > 0) lines.push(`A stream of up to ${bitRate(grantable_rate)} could start now.`);
  if (detail && !lines.includes(detail)) lines.push(detail);
  lines.push("Reel starts a film only when it can promise that it will not stall.");
  return { heading: problem.body.title || "All places are taken", lines, retry_s: Math.min(3600, Math.max(1, Math.ceil(problem.retryAfterS ?? DEFAULT_RETRY_S))) };
}

/** Rates come in bits each second, memory in bytes, cores as a share of one core. */
function amount(resource: string, value: number): string {
  switch (kindOf(resource)) {
    case "memory":
      return bytes(value);
    case "cores":
      return `${(value * 100).toFixed(0)}%`;
    case "other":
      return value.toLocaleString("en");
    default:
      return bitRate(value);
  }
}

function place(resource: string): string {
  const numbered = /^(?:disk|member)[ _:-]*(\d+)$/i.exec(resource);
  if (numbered) return `from disk ${numbered[1]}`;
  return { disks: "from the disks", network: "from the network", memory: "of memory", cores: "of a processor", other: `of ${resource}` }[kindOf(resource)];
}

function kindOf(resource: string): "disks" | "network" | "memory" | "cores" | "other" {
  if (/disk|member/i.test(resource)) return "disks";
  if (/net|link|interface/i.test(resource)) return "network";
  if (/mem|buffer|arena/i.test(resource)) return "memory";
  if (/core|cpu|processor/i.test(resource)) return "cores";
  return "other";
}
