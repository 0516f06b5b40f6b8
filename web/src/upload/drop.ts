import { h } from "../ui/dom.ts";
import { icon } from "../ui/icons.ts";
import { SUBTITLE_EXTENSIONS } from "./plan.ts";
import { addFiles } from "./queue.ts";

const MEDIA = "video/*,audio/*,.mp4,.m4v,.mov,.mkv,.webm,.ts,.m2ts,.mts,.m4a,.mka";

/** Opens the file picker. */
export function pickFiles(): void {
  input.click();
}

const input = h("input", {
  type: "file",
  multiple: true,
  accept: [MEDIA, ...SUBTITLE_EXTENSIONS].join(","),
  class: "hidden-input",
  "aria-label": "Films to add",
  tabindex: -1,
});
input.addEventListener("change", () => {
  if (input.files) void addFiles([...input.files]);
  input.value = "";
});

/** The whole window is the drop zone. */
export function installDropZone(): void {
  const veil = h(
    "div",
    { class: "drop-veil", "aria-hidden": "true" },
    h(
      "div",
      { class: "drop-veil-card" },
      icon("upload"),
      h("strong", {}, "Drop to add"),
      h("span", {}, "MP4, MOV, MKV, WebM or TS, and subtitles (SRT, VTT, ASS)"),
    ),
  );
  document.body.append(input, veil);
  // dragenter and dragleave come for every element passed: the pointer is inside while the first
  // outnumber the second.
  let depth = 0;
  const show = (visible: boolean) => document.body.toggleAttribute("data-dropping", visible);
  window.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    show(true);
  });
  window.addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (depth === 0) show(false);
  });
  window.addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  window.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    show(false);
    void addFiles([...(event.dataTransfer?.files ?? [])]);
  });
}

function carriesFiles(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes("Files") ?? false;
}
