/** Numbers and names as people read them. Pure. */

/** 5045 s -> "1:24:05"; 65 s -> "1:05". */
export function clock(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "0:00";
  const whole = Math.floor(seconds);
  const h = Math.floor(whole / 3600);
  const m = Math.floor((whole % 3600) / 60);
  const s = String(whole % 60).padStart(2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

/** The same for a screen reader: "1 hour 24 minutes 5 seconds". */
export function spokenTime(seconds: number): string {
  const whole = Math.max(0, Math.floor(Number.isFinite(seconds) ? seconds : 0));
  const parts: string[] = [];
  const add = (n: number, unit: string) => {
    if (n > 0) parts.push(`${n} ${unit}${n === 1 ? "" : "s"}`);
  };
  add(Math.floor(whole / 3600), "hour");
  add(Math.floor((whole % 3600) / 60), "minute");
  add(whole % 60, "second");
  return parts.length > 0 ? parts.join(" ") : "0 seconds";
}

/** "about 2 h", "3 min", "12 s": how long something will still take. */
export function timeLeft(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "";
  if (seconds < 60) return `${Math.max(1, Math.ceil(seconds))} s left`;
  if (seconds < 3600) return `${Math.ceil(seconds / 60)} min left`;
  return `${(seconds / 3600).toFixed(1)} h left`;
}

/** Decimal units: 1_500_000 -> "1.5 MB". */
export function bytes(count: number): string {
  return scaled(count, "B");
}

/** Bytes each second: "12 MB/s". */
export function byteRate(bytesPerSecond: number): string {
  return `${scaled(bytesPerSecond, "B")}/s`;
}

/** Bits each second: "4.2 Mb/s". */
export function bitRate(bitsPerSecond: number): string {
  return `${scaled(bitsPerSecond, "b")}/s`;
}

function scaled(value: number, unit: string): string {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let step = 0;
  let rest = Number.isFinite(value) ? Math.max(0, value) : 0;
  while (rest >= 999.5 && step < prefixes.length - 1) {
    rest /= 1000;
    step += 1;
  }
  const digits = step === 0 || rest >= 99.95 ? 0 : rest >= 9.95 ? (rest % 1 < 0.05 ? 0 : 1) : 1;
  const text = rest.toFixed(digits).replace(/\.0$/, "");
  return `${text} ${prefixes[step]}${unit}`;
}

/** Usual sizes by their lines, in pictures of 16:9. */
const sizes = [
  [4320, "8K"],
  [2160, "4K"],
  [1440, "1440p"],
  [1080, "1080p"],
  [720, "720p"],
  [576, "576p"],
  [540, "540p"],
  [480, "480p"],
  [360, "360p"],
  [240, "240p"],
] as const;

/** So much may a picture differ from a usual size and still bear its name. */
const SIZE_TOLERANCE = 0.02;

/** Widths of digital cinema, wider than 16:9, and the lines of a whole picture. */
const cinema = new Map([
  [4096, 2160],
  [2048, 1080],
]);

/**
 * The name of a picture size: 1920x800 -> "1080p" (a wide film cut from 1080 lines), 3840x2160 ->
 * "4K". A size that is near no usual one has its own lines: 1000x562 -> "562p".
 */
export function resolutionLabel(width: number, height: number): string {
  const short = Math.min(width, height);
  const long = Math.max(width, height);
  if (!(short > 0)) return "";
  const whole = Math.max(short, cinema.get(long) ?? (long * 9) / 16);
  return usualSize(whole) ?? usualSize(short) ?? `${Math.round(short)}p`;
}

function usualSize(lines: number): string | undefined {
  return sizes.find(([usual]) => Math.abs(lines - usual) <= usual * SIZE_TOLERANCE)?.[1];
}

const languages = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });

/** "de" or "deu" -> "German"; "und" or nothing -> "". */
export function languageName(tag: string): string {
  if (tag === "" || tag === "und" || tag === "mul" || tag === "zxx") return "";
  try {
    return languages.of(tag) ?? tag;
  } catch {
    return tag;
  }
}

export function channelLabel(channels: number): string {
  return { 1: "mono", 2: "stereo", 6: "5.1", 8: "7.1" }[channels] ?? `${channels} channels`;
}

/** The codec's common name from its RFC 6381 string: "avc1.64001f" -> "H.264". */
export function codecName(codec: string): string {
  const known: [RegExp, string][] = [
    [/^(avc|h264)/i, "H.264"],
    [/^(hvc1|hev1|hevc|h265)/i, "HEVC"],
    [/^av0?1/i, "AV1"],
    [/^vp0?9/i, "VP9"],
    [/^vp0?8/i, "VP8"],
    [/^(mp4a\.40\.34|mp4a\.6b|mp3)/i, "MP3"],
    [/^(mp4a|aac)/i, "AAC"],
    [/^opus/i, "Opus"],
    [/^ec-3|^eac3/i, "E-AC-3"],
    [/^ac-3|^ac3/i, "AC-3"],
    [/^flac/i, "FLAC"],
  ];
  return known.find(([pattern]) => pattern.test(codec))?.[1] ?? codec;
}

/** A film's name guessed from its file: "My_first.film.mp4" -> "My first film". */
export function nameFromFile(fileName: string): string {
  const stem = fileName.replace(/^.*[\\/]/, "").replace(/\.[a-z0-9]{1,5}$/i, "");
  const spaced = stem.includes(" ") ? stem : stem.replace(/[._]+/g, " ");
  return spaced.replace(/\s+/g, " ").trim() || "Untitled";
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** The first letter in upper case. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
