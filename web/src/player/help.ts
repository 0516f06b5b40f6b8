import { sheet } from "../ui/dialog.ts";
import { h } from "../ui/dom.ts";
import { keyHelp } from "./keys.ts";

export function showHelp(host: HTMLElement): void {
  if (host.querySelector("dialog")) return;
  sheet(
    "Keys",
    [
      h(
        "dl",
        { class: "keys" },
        ...keyHelp.map(([keys, meaning]) =>
          h("div", {}, h("dt", {}, ...keys.map((key) => h("kbd", {}, key))), h("dd", {}, meaning)),
        ),
      ),
    ],
    host,
  );
}
