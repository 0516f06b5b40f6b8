import { h } from "./dom.ts";
import { icon } from "./icons.ts";

/** A text to copy, with a button that does so. */
export function copyField(text: string, name: string): { field: HTMLInputElement; button: HTMLElement } {
  const field = h("input", {
    class: "address-field",
    readonly: true,
    value: text,
    "aria-label": name,
  });
  const button = h(
    "button",
    { type: "button", class: "icon-button", "aria-label": `Copy: ${name}`, title: "Copy" },
    icon("link"),
  );
  field.addEventListener("focus", () => field.select());
  button.addEventListener("click", () => {
    field.select();
    // The clipboard object exists only on secure origins; a server in a home network mostly is
    // none.
    const done = navigator.clipboard
      ? navigator.clipboard.writeText(field.value).then(
          () => true,
          () => false,
        )
      : Promise.resolve(document.execCommand("copy"));
    void done.then((copied) => {
      if (!copied) return;
      button.replaceChildren(icon("check"));
      setTimeout(() => button.replaceChildren(icon("link")), 1500);
    });
  });
  return { field, button };
}
