import type { LateViewer } from "../api/types.ts";
import { knownTitle } from "../library/store.ts";
import { h, setText } from "../ui/dom.ts";
import { rows } from "./bar.ts";
import { isRecent, lateViewerWords } from "./words.ts";

/** For whom data was late, the newest first. What is long ago is no fault to look at any more. */
export function lateList(): { element: HTMLElement; show(late: LateViewer[]): void } {
  const list = h("ul", { class: "late-viewers", "aria-label": "Late data" });
  const none = h("p", { class: "quiet-line" }, "No data was late for a viewer since the server started.");
  const showRows = rows<LateViewer>(list, () => {
    const title = h("strong", {});
    const words = h("span", {});
    const element = h("li", {}, title, words);
    return {
      element,
      show(late) {
        setText(title, knownTitle(late.title)?.name ?? late.title);
        setText(words, lateViewerWords(late));
        element.toggleAttribute("data-amiss", isRecent(late));
      },
    };
  });
  return {
    element: h("div", {}, list, none),
    show(late) {
      list.hidden = late.length === 0;
      none.hidden = late.length > 0;
      showRows(late);
    },
  };
}
