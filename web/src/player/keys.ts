/** What a key means to the player. Pure. */
export type Command =
  | { do: "toggle" | "mute" | "fullscreen" | "subtitles" | "help" | "pip" | "statistics" }
  | { do: "seekBy"; seconds: number }
  | { do: "seekTo"; fraction: number }
  | { do: "volumeBy"; step: number }
  | { do: "speedBy"; steps: number };

export interface Key {
  key: string;
  ctrlKey?: boolean;
  metaKey?: boolean;
  altKey?: boolean;
}

export function commandOf(event: Key): Command | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (/^[0-9]$/.test(event.key)) return { do: "seekTo", fraction: Number(event.key) / 10 };
  switch (event.key.length === 1 ? event.key.toLowerCase() : event.key) {
    case " ":
    case "k":
      return { do: "toggle" };
    case "j":
      return { do: "seekBy", seconds: -10 };
    case "l":
      return { do: "seekBy", seconds: 10 };
    case "ArrowLeft":
      return { do: "seekBy", seconds: -5 };
    case "ArrowRight":
      return { do: "seekBy", seconds: 5 };
    case "ArrowUp":
      return { do: "volumeBy", step: 0.05 };
    case "ArrowDown":
      return { do: "volumeBy", step: -0.05 };
    case "Home":
      return { do: "seekTo", fraction: 0 };
    case "End":
      return { do: "seekTo", fraction: 1 };
    case "m":
      return { do: "mute" };
    case "f":
      return { do: "fullscreen" };
    case "c":
      return { do: "subtitles" };
    case "p":
      return { do: "pip" };
    case "i":
      return { do: "statistics" };
    case "<":
      return { do: "speedBy", steps: -1 };
    case ">":
      return { do: "speedBy", steps: 1 };
    case "?":
      return { do: "help" };
    default:
      return undefined;
  }
}

/** For the help page: keys and what they do. */
export const keyHelp: readonly [keys: string[], meaning: string][] = [
  [["Space", "K"], "Play or pause"],
  [["←", "→"], "5 seconds back, forward"],
  [["J", "L"], "10 seconds back, forward"],
  [["0", "9"], "Jump to 0 % to 90 % of the film"],
  [["Home", "End"], "Beginning, end"],
  [["↑", "↓"], "Louder, quieter"],
  [["M"], "Sound on or off"],
  [["C"], "Subtitles on or off"],
  [["F"], "Full screen"],
  [["P"], "Picture in picture"],
  [["<", ">"], "Slower, faster"],
  [["I"], "Playback statistics"],
  [["?"], "This list of keys"],
];

export const speeds = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2] as const;

/** The next speed up or down from one that may lie between the steps. */
export function stepSpeed(now: number, steps: number): number {
  const nearest = speeds.reduce(
    (best, speed, i) => (Math.abs(speed - now) < Math.abs((speeds[best] ?? 1) - now) ? i : best),
    0,
  );
  return speeds[Math.min(speeds.length - 1, Math.max(0, nearest + steps))] ?? 1;
}
