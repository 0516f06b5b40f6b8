/** The names of the codes and figures on the dashboard. Pure. */

import type {
  LateViewer,
  Member,
  MemberActivity,
  MemberState,
  ResourceCode,
  ResourceUse,
  SessionRow,
  Sharing,
} from "../api/types.ts";
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

const activities: Record<MemberActivity, string> = {
  active: "",
  idle: "idle",
  waking: "waking",
  silent: "does not answer",
};

/** "Healthy, waking". What a disk does matters only while it is in use. */
export function memberWords({
  state,
  activity,
  in_use,
}: Pick<Member, "state" | "activity" | "in_use">): string {
  const does = in_use ? (activities[activity] ?? activity) : "";
  return does ? `${stateWords(state)}, ${does}` : stateWords(state);
}

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

/** What is wrong with the shares of all classes, in per cent; undefined if they are valid. */
export function shareProblem(shares: { name: string; text: string }[], of: string): string | undefined {
  const wrong = shares.find(({ text }) => {
    const permille = shareOf(text);
    return !(permille > 0 && permille <= 1000);
  });
  if (wrong)
    return `“${wrong.text}” is not a valid share for ${wrong.name}; use a number from 0.1 to 100, such as 15 or 12.5.`;
  const sum = shares.reduce((total, { text }) => total + shareOf(text), 0);
  return sum === 1000 ? undefined : `The ${of} make ${shareText(sum)}%; they must make 100%.`;
}

/** States in which a member is there, and lacks data that a rebuild can write to it. */
const REBUILDABLE: MemberState[] = ["stale", "rebuilding", "failed"];

/** Members that a rebuild fills. */
export function rebuildable<T extends Pick<Member, "state">>(members: T[]): T[] {
  return members.filter(({ state }) => REBUILDABLE.includes(state));
}

/** What is to be done about the members that are not in use; empty if all are. */
export function repairWords(members: Pick<Member, "member" | "state" | "in_use">[]): string {
  const lost = members.filter(({ in_use }) => !in_use);
  const fillable = rebuildable(lost);
  const gone = lost.filter((member) => !fillable.includes(member));
  const parts: string[] = [];
  if (fillable.length > 0)
    parts.push(`${disks(fillable)} lack${fillable.length === 1 ? "s" : ""} data: rebuild.`);
  if (gone.length > 0)
    parts.push(
      `${disks(gone)} cannot be used: give ${gone.length === 1 ? "it" : "each"} a replacement below, or connect the disk again and restart Reel.`,
    );
  return parts.join(" ");
}

function disks(members: Pick<Member, "member">[]): string {
  const numbers = members.map(({ member }) => member);
  const last = numbers.pop();
  return numbers.length === 0 ? `Disk ${last}` : `Disks ${numbers.join(", ")} and ${last}`;
}

/** What was late is a fault to look at for so long. */
export const LATE_RECENT_S = 600;

/** Whether it is not long ago that something was late. */
export function isRecent({ ago_s }: Pick<LateViewer, "ago_s">): boolean {
  return ago_s < LATE_RECENT_S;
}

/** "120 ms late, 3 units, 30 s ago · 10.0.0.7 · ab12… · periodic". */
export function lateViewerWords(late: Omit<LateViewer, "title">): string {
  const when = `${milliseconds(late.late_ms)} late, ${count(late.units, "unit")}, ${ago(late.ago_s)} ago`;
  return [when, late.client, `${late.key_hint}…`, late.class].join(" · ");
}

/** "none", "1 request, the last 5 min ago in periodic". */
export function lateWords({ late, last_late }: Pick<Member, "late" | "last_late">): string {
  if (late === 0) return "none";
  const requests = count(late, "request");
  return last_late ? `${requests}, last ${ago(last_late.ago_s)} ago (${last_late.class})` : requests;
}

/** "12 s", "5 min", "3 h", "2 days". */
function ago(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/** Whether a session that had a reservation needs none at the moment. */
export function isIdle({ state }: Pick<SessionRow, "state">): boolean {
  return state === "paused" || state === "delivered";
}

/** Whether a session has every word of `query`, in its name, client, class or key. */
export function sessionHas(session: SessionRow, name: string, query: string): boolean {
  const text = [name, session.title, session.client, session.class, session.key_hint]
    .join(" ")
    .toLocaleLowerCase();
  return query
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
