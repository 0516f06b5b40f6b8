import type { Title } from "../api/types.ts";
import { codecName, languageName, resolutionLabel } from "../format.ts";

export const orders = {
  added: "Recently added",
  name: "Name",
  longest: "Longest",
  largest: "Largest",
} as const;
export type Order = keyof typeof orders;

export function isOrder(text: string | null): text is Order {
  return text !== null && text in orders;
}

/** The titles that hold every word of `query`, in `order`. Accents and case do not matter. */
export function select(titles: readonly Title[], query: string, order: Order): Title[] {
  const words = fold(query)
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = titles.filter((title) => {
    const text = haystack(title);
    return words.every((word) => text.includes(word));
  });
  return found.sort(comparison(order));
}

const haystacks = new WeakMap<Title, string>();

function haystack(title: Title): string {
  let text = haystacks.get(title);
  if (text === undefined) {
    text = fold(
      [
        title.name,
        title.id,
        ...title.video.flatMap((v) => [resolutionLabel(v.width, v.height), codecName(v.codec)]),
        ...title.audio.flatMap((a) => [languageName(a.language), codecName(a.codec)]),
        ...title.subtitles.map((s) => languageName(s.language)),
      ].join(" "),
    );
    haystacks.set(title, text);
  }
  return text;
}

/** Letters that are not made of a plain letter and an accent, and joiners, as people type them. */
const plain: Record<string, string> = {
  æ: "ae",
  ð: "d",
  đ: "d",
  ı: "i",
  ł: "l",
  ø: "o",
  œ: "oe",
  ß: "ss",
  þ: "th",
  "\u200c": "",
  "\u200d": "",
};

function fold(text: string): string {
  const folded = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return folded.replace(/[^ -~]/g, (letter) => plain[letter] ?? letter);
}

const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

function comparison(order: Order): (a: Title, b: Title) => number {
  const byName = (a: Title, b: Title) => names.compare(a.name, b.name) || names.compare(a.id, b.id);
  switch (order) {
    case "name":
      return byName;
    case "longest":
      return (a, b) => b.duration_s - a.duration_s || byName(a, b);
    case "largest":
      return (a, b) => b.bytes - a.bytes || byName(a, b);
    case "added":
      return (a, b) => Date.parse(b.added) - Date.parse(a.added) || byName(a, b);
  }
}
