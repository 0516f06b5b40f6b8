/** What becomes of files that were chosen together. Pure. */

/** As much of a file as a plan needs. */
export interface Named {
  readonly name: string;
  readonly size: number;
}

/** Files that become one title: the film, its other renditions, and its subtitles. */
export interface Upload<T extends Named = File> {
  name: string;
  films: [T, ...T[]];
  subtitles: T[];
}

export interface Plan<T extends Named = File> {
  uploads: Upload<T>[];
  /** Subtitles whose film is not among the files. */
  strays: T[];
}

/** As the server reads them. */
export const SUBTITLE_EXTENSIONS = [".srt", ".vtt", ".ass", ".ssa"];

/** "film 1080p", "film-720", "film.1920x1080", "film_4k": a name, and a size. */
const SIZED =
  /^(.+?)[\s._-]*[[(]?(\d{3,4}p|\d{3,4}x\d{3,4}|4k|8k|2160|1440|1080|720|576|540|480|360|240)[\])]?$/i;

/** One upload for each film, with the subtitles that have its name. */
export function planOf<T extends Named>(files: readonly T[]): Plan<T> {
  const isSubtitle = ({ name }: T) =>
    SUBTITLE_EXTENSIONS.some((extension) => name.toLowerCase().endsWith(extension));
  const uploads = files
    .filter((file) => !isSubtitle(file))
    .map((film): Upload<T> => ({ name: stem(film.name), films: [film], subtitles: [] }));
  const strays: T[] = [];
  for (const file of files.filter(isSubtitle)) {
    const owners = uploads.filter(({ name }) => file.name.startsWith(`${name}.`));
    // Of "film" and "film.2", the subtitles "film.2.srt" belong to the second.
    const owner = owners.sort((a, b) => b.name.length - a.name.length)[0];
    if (owner) owner.subtitles.push(file);
    else strays.push(file);
  }
  return { uploads, strays };
}

/** Uploads whose names differ by a size only, the largest first: probably one film. */
export function renditions<T extends Named>(uploads: readonly Upload<T>[]): Upload<T>[][] {
  const groups = new Map<string, { upload: Upload<T>; lines: number }[]>();
  for (const upload of uploads) {
    const [, base, size] = SIZED.exec(upload.name) ?? [];
    if (base === undefined || size === undefined) continue;
    const key = base.toLowerCase();
    groups.set(key, [...(groups.get(key) ?? []), { upload, lines: linesOf(size) }]);
  }
  return [...groups.values()]
    .filter((group) => group.length > 1 && new Set(group.map(({ lines }) => lines)).size === group.length)
    .map((group) => group.sort((a, b) => b.lines - a.lines).map(({ upload }) => upload));
}

/** Renditions as one upload, under the name that they have in common. */
export function joined<T extends Named>(group: readonly Upload<T>[]): Upload<T> {
  const [first, ...rest] = group;
  if (!first) throw new Error("a group has files");
  return {
    name: SIZED.exec(first.name)?.[1] ?? first.name,
    films: [first.films[0], ...rest.map(({ films }) => films[0])],
    subtitles: group.flatMap(({ subtitles }) => subtitles),
  };
}

/** All files of an upload in the order in which they are sent. */
export function filesOf<T extends Named>({ films, subtitles }: Upload<T>): T[] {
  return [...films, ...subtitles];
}

function linesOf(size: string): number {
  if (/^\dk$/i.test(size)) return size[0] === "8" ? 4320 : 2160;
  return Number.parseInt(size.replace(/^\d+x/i, ""), 10);
}

function stem(fileName: string): string {
  return fileName.replace(/\.[a-z0-9]{1,5}$/i, "");
}
