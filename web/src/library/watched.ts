import { getWatch } from "../api/client.ts";
import type { Watch, WatchFile } from "../api/types.ts";
import { count } from "../format.ts";
import { h, wait } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

const WATCH_MS = 15_000;
/** Files that a notice lists; the API has the rest. */
const LISTED_MAX = 20;

/** Reports what the watched directory holds, now and as long as the page is shown. */
export function followWatched(tell: (watch: Watch) => void, signal: AbortSignal): void {
  const follow = async () => {
    while (!signal.aborted) {
      // The list of titles reports a server that does not answer; this is only an addition to it.
      if (document.visibilityState === "visible") await getWatch(signal).then(tell, () => {});
      await wait(WATCH_MS, signal);
    }
  };
  // Ends by the signal's abort and in no other way.
  follow().catch(() => {});
}

/** Nothing while every file of the watched directory is a title, or is about to become one. */
export function watchedNotice(watch: Pick<Watch, "problem" | "files">): HTMLElement[] {
  if (watch.problem !== null) {
    return [notice(`The watched directory cannot be read: ${watch.problem}`, [])];
  }
  const without = watch.files.filter((file) => file.state === "failed" || file.state === "skipped");
  if (without.length === 0) return [];
  const words = `${count(without.length, "file")} of the watched directory ${without.length === 1 ? "is no title" : "are no titles"}.`;
  return [notice(words, without)];
}

function notice(words: string, files: WatchFile[]): HTMLElement {
  const line = (file: WatchFile) => h("li", {}, h("b", {}, file.path), ` ${file.reason ?? ""}`);
  const more = files.length - LISTED_MAX;
  const list = h(
    "ul",
    { class: "watched-files" },
    ...files.slice(0, LISTED_MAX).map(line),
    ...(more > 0 ? [h("li", {}, `and ${more} more`)] : []),
  );
  const body =
    files.length === 0
      ? h("strong", {}, words)
      : h("details", {}, h("summary", {}, h("strong", {}, words)), list);
  return h("div", { class: "notice", role: "status" }, icon("warning"), h("div", {}, body));
}
