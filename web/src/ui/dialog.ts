import { type Child, h } from "./dom.ts";
import { icon } from "./icons.ts";

/** A modal question. Resolves true only when the action was chosen. */
export function confirm(question: {
  heading: string;
  body: string;
  action: string;
  danger?: boolean;
}): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = h("button", { type: "button", class: "button", autofocus: true }, "Cancel");
    const action = h(
      "button",
      { type: "button", class: question.danger ? "button danger" : "button primary" },
      question.action,
    );
    const dialog = modal(
      question.heading,
      [h("p", {}, question.body), h("div", { class: "dialog-actions" }, cancel, action)],
      document.body,
    );
    let chosen = false;
    cancel.addEventListener("click", () => dialog.close());
    action.addEventListener("click", () => {
      chosen = true;
      dialog.close();
    });
    dialog.addEventListener("close", () => resolve(chosen));
  });
}

/** Shows a page of text in a modal; it removes itself when closed. */
export function sheet(heading: string, content: Child[], host: HTMLElement): HTMLDialogElement {
  const close = h(
    "button",
    { type: "button", class: "icon-button dialog-close", "aria-label": "Close" },
    icon("close"),
  );
  const dialog = modal(heading, [close, ...content], host);
  close.addEventListener("click", () => dialog.close());
  return dialog;
}

function modal(heading: string, content: Child[], host: HTMLElement): HTMLDialogElement {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": id },
    h("h2", { id }, heading),
    ...content,
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  dialog.addEventListener("close", () => dialog.remove());
  host.append(dialog);
  dialog.showModal();
  return dialog;
}
