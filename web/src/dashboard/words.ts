/** The names of the codes and figures on the dashboard. Pure. */

import type { MemberState, ResourceCode, ResourceUse, Sharing } from "../api/types.ts";
import { bitRate, bytes, capitalized, count } from "../format.ts";

const states: Record<MemberState, string> = {
  present: "Healthy",
  swapped: "Healthy, path has changed",
  repaired: "Healthy, repaired",
  missing: "Missing",
  denied: "Not accessible",
  truncated: "Too short",
  damaged: "Damaged",
  foreign: "Of another volume",
  stale: "Out of date",
  failed: "Failed",
  rebuilding: "Being rebuilt",
};

/** A server newer than this page may have a state that is not listed here. */
export function stateWords(state: MemberState): string {
  return states[state] ?? capitalized(state);
}

const resources: Record<ResourceCode, string> = {
  disk: "Disk",
  "disk-bytes": "Disk",
  network: "Network",
  processor: "Processor",
  memory: "Media memory",
  sessions: "Sessions",
};

/** "Disk 3", "Disk 3, bytes", "Network". */
export function resourceName({ resource, member }: Pick<ResourceUse, "resource" | "member">): string {
  const name = resources[resource] ?? capitalized(resource);
  const numbered = member === undefined ? name : `${name} ${member}`;
  return resource === "disk-bytes" ? `${numbered}, bytes` : numbered;
}

/** Reasons of refusals; those of all disks are counted together. */
export function refusalName(resource: ResourceCode): string {
  if (resource === "disk") return "Disks";
  if (resource === "sessions") return "Too many sessions";
  return resourceName({ resource });
}

/** "412 ms", "8.0 ms", "−35 ms", "1.00 s". */
export function milliseconds(ms: number): string {
  const size = Math.abs(ms);
  if (Math.round(size) >= 1000) return `${ms < 0 ? "−" : ""}${(size / 1000).toFixed(2)} s`;
  const digits = size > 0 && size < 10 ? size.toFixed(1) : String(Math.round(size));
  return `${ms < 0 && Number(digits) !== 0 ? "−" : ""}${digits} ms`;
}

/** "120 ms of 700 ms", "4.1 Mb/s, no limit known". */
export function useWords({ resource, unit, used, capacity }: ResourceUse): string {
  const isRate = resource === "network";
  const amount = (value: number) =>
    unit === "ns" ? milliseconds(value / 1e6) : isRate ? bitRate(value * 8) : bytes(value);
  return capacity === null ? `${amount(used)}, no limit known` : `${amount(used)} of ${amount(capacity)}`;
}

/** "38 sessions need no disk: they play from memory what others have read (1 group, 9 MB kept)." */
export function sharingWords({ groups, followers, kept_bytes }: Sharing): string {
  if (followers === 0) return "";
  const sessions =
    followers === 1
      ? "1 session needs no disk: it plays from memory what another one has read"
      : `${followers.toLocaleString("en")} sessions need no disk: they play from memory what others have read`;
  return `${sessions} (${count(groups, "group")}, ${bytes(kept_bytes)} kept).`;
}

/**
 * The end of a path, which differs from disk to disk: "/srv/reel/disk0/member" -> "…/disk0/member".
 */
export function pathEnd(path: string): string {
  const parts = path.split("/").filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}

/** A part in percent; 0 when there is nothing to be a part of. */
export function percent(used: number, capacity: number | null): number {
  return capacity ? Math.min(100, (used / capacity) * 100) : 0;
}

/** Thousandths as people write them: 705 -> "70.5". */
export function shareText(permille: number): string {
  return String(permille / 10);
}

/** And back; NaN when it is no number of tenths. */
export function shareOf(text: string): number {
  const tenths = Number(text.trim().replace(",", ".")) * 10;
  return text.trim() !== "" && Math.abs(tenths - Math.round(tenths)) < 1e-6 ? Math.round(tenths) : Number.NaN;
}
