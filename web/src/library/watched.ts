import { getWatch } from "../api/client.ts";
import type { Watch, WatchFile } from "../api/types.ts";
import { count } from "../format.ts";
import { below } from "../root.ts";
import { h, wait } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

const WATCH_MS = 15_000;

/** Reports what the watched directory holds, now and as long as the page is shown. */
export function followWatched(tell: (watch: Watch) => void, signal: AbortSignal): void {
  const follow = async () => {
    while (!signal.aborted) {
      // The page itself reports a server that does not answer; this is only an addition to it.
      if (document.visibilityState === "visible") await getWatch(signal).then(tell, () => {});
      await wait(WATCH_MS, signal);
    }
  };
  // Ends by the signal's abort and in no other way.
  follow().catch(() => {});
}

/** Files that are listed; the API has the rest. */
const LISTED_MAX = 20;

/** What is to be said of the watched directory, in sentences, and the files concerned. */
export function watchedTrouble(
  watch: Pick<Watch, "problem" | "files">,
): { words: string; files: WatchFile[] } | undefined {
  if (watch.problem !== null) return { words: "The watched directory cannot be read.", files: [] };
  const refused = watch.files.filter((file) => file.state === "failed" || file.state === "skipped");
  const waiting = watch.files.filter((file) => file.state === "waiting");
  const warned = watch.files.filter((file) => file.warnings.length > 0);
  const files = [...refused, ...waiting, ...warned];
  if (files.length === 0) return undefined;
  const say = (part: WatchFile[], one: string, many: string) =>
    part.length === 0
      ? []
      : [`${count(part.length, "file")} of the watched directory ${part.length === 1 ? one : many}.`];
  const words = [
    ...say(refused, "is no title", "are no titles"),
    ...say(waiting, "may be incomplete", "may be incomplete"),
    ...say(warned, "became a title with warnings", "became titles with warnings"),
  ].join(" ");
  return { words, files };
}

/**
 * Nothing while every file of the watched directory is a title without warnings, or is being
 * ingested. Errors of the system are for the operator: the dashboard shows them.
 */
export function watchedNotice(watch: Pick<Watch, "problem" | "files">): HTMLElement[] {
  const trouble = watchedTrouble(watch);
  if (!trouble) return [];
  const { words, files } = trouble;
  const heading = h("strong", {}, words);
  const why = h("p", {}, "The ", h("a", { href: below("dashboard") }, "dashboard"), " says why.");
  const plain = (text: string) => text.replace(/ \(os error \d+\)/g, "");
  const body = files.length === 0 ? h("div", {}, heading, why) : fileDetails(heading, files, plain);
  const onlyWaiting = files.length > 0 && files.every((file) => file.state === "waiting");
  return [h("div", { class: "notice", role: "status" }, icon(onlyWaiting ? "info" : "warning"), body)];
}

/** The files with what is said of each, to be opened. */
export function fileDetails(
  heading: HTMLElement,
  files: WatchFile[],
  worded: (text: string) => string = (text) => text,
): HTMLElement {
  const more = files.length - LISTED_MAX;
  const line = ({ path, reason, warnings }: WatchFile) =>
    h("li", {}, h("b", {}, path), ` ${worded([...(reason ? [reason] : []), ...warnings].join("; "))}`);
  const list = h(
    "ul",
    { class: "watched-files" },
    ...files.slice(0, LISTED_MAX).map(line),
    ...(more > 0 ? [h("li", {}, `and ${more} more`)] : []),
  );
  return h("details", {}, h("summary", {}, heading), list);
}
