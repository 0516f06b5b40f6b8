import type { Watch } from "../api/types.ts";
import { fileDetails, watchedTrouble } from "../library/watched.ts";
import { h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";

/** What is wrong with the watched directory, with the reasons; nothing if all is well. */
export function watchedDetails(watch: Pick<Watch, "problem" | "files">): HTMLElement[] {
  const trouble = watchedTrouble(watch);
  if (!trouble) return [];
  const { words, files } = trouble;
  const heading = h("strong", {}, words);
  const body =
    watch.problem !== null ? h("div", {}, heading, h("p", {}, watch.problem)) : fileDetails(heading, files);
  return [h("div", { class: "notice", role: "status" }, icon("warning"), body)];
}
