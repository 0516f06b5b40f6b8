/** Marks in the names of subtitle files that are no language. */
const OTHER_MARKS = new Set(["default", "forced", "sdh", "cc"]);

/** The language that the name of a subtitle file states: "film.pt-BR.forced.srt". Pure. */
export function languageIn(fileName: string): string {
  const parts = fileName.split(".").slice(1, -1);
  while (OTHER_MARKS.has(parts.at(-1)?.toLowerCase() ?? "")) parts.pop();
  const last = parts.at(-1) ?? "";
  if (!/^[a-z]{2,3}([-_][a-z0-9]{2,8})?$/i.test(last)) return "";
  const tag = last.replace("_", "-");
  try {
    // A word of three letters is no language only because it could be one.
    return new Intl.DisplayNames("en", { type: "language", fallback: "none" }).of(tag) ? tag : "";
  } catch {
    return "";
  }
}
