/** What a viewer chose last time. Kept in this browser only. */
export interface Preferences {
  volume?: number | undefined;
  muted?: boolean | undefined;
  audioLanguage?: string | undefined;
  /** Absent: no subtitles. */
  subtitleLanguage?: string | undefined;
  bandwidth_bps?: number | undefined;
}

const KEY = "reel.preferences";

export function recall(): Preferences {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof value === "object" && value !== null ? (value as Preferences) : {};
  } catch {
    // No storage, or not ours: play with the defaults.
    return {};
  }
}

export function remember(change: Preferences): void {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...recall(), ...change }));
  } catch {
    // The choice then holds for this page only.
  }
}
