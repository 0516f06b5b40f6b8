/** Where each film was left. Kept in this browser only. */

export interface Position {
  at_s: number;
  of_s: number;
}

/** Below this a film counts as not begun; this near the end as seen. */
const BEGUN_S = 10;
const SEEN_FRACTION = 0.95;

/** Whether a position is worth coming back to. */
export function worthResuming({ at_s, of_s }: Position): boolean {
  return at_s >= Math.min(BEGUN_S, of_s * 0.1) && at_s < of_s * SEEN_FRACTION;
}

export function loadPosition(id: string): Position | undefined {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key(id)) ?? "null");
    if (typeof value !== "object" || value === null) return undefined;
    const { at_s, of_s } = value as Partial<Position>;
    if (typeof at_s !== "number" || typeof of_s !== "number" || !(of_s > 0)) return undefined;
    return worthResuming({ at_s, of_s }) ? { at_s, of_s } : undefined;
  } catch {
    // Storage may be forbidden or hold another program's text; a film then starts at its beginning.
    return undefined;
  }
}

export function savePosition(id: string, position: Position): void {
  try {
    if (worthResuming(position)) localStorage.setItem(key(id), JSON.stringify(position));
    else localStorage.removeItem(key(id));
  } catch {
    // As above.
  }
}

export function forgetPosition(id: string): void {
  try {
    localStorage.removeItem(key(id));
  } catch {
    // As above.
  }
}

function key(id: string): string {
  return `reel.position.${id}`;
}
