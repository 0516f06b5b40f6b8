import { type Child, h, setText } from "./dom.ts";
import { icon } from "./icons.ts";

/** A modal question. Resolves true only when the action was chosen. */
export async function confirm(question: {
  heading: string;
  body: string;
  action: string;
  danger?: boolean;
}): Promise<boolean> {
  const { action, ...rest } = question;
  return (await choose({ ...rest, choices: [action] })) === action;
}

/** A modal choice; the last is the suggested one. Undefined if it was left without any. */
export function choose<T extends string>(question: {
  heading: string;
  body: string;
  choices: readonly T[];
  danger?: boolean;
}): Promise<T | undefined> {
  return new Promise((resolve) => {
    let chosen: T | undefined;
    const cancel = h("button", { type: "button", class: "button", autofocus: true }, "Cancel");
    const suggested = question.danger ? "button danger" : "button primary";
    const buttons = question.choices.map((choice, i) => {
      const isLast = i === question.choices.length - 1;
      const button = h("button", { type: "button", class: isLast ? suggested : "button" }, choice);
      button.addEventListener("click", () => {
        chosen = choice;
        dialog.close();
      });
      return button;
    });
    const dialog = modal(
      question.heading,
      [h("p", {}, question.body), h("div", { class: "dialog-actions" }, cancel, ...buttons)],
      document.body,
    );
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => resolve(chosen));
  });
}

/**
 * A modal with fields. `submit` does what is asked for, and returns what is wrong; the dialog
 * closes when nothing is. Resolves true then, and false if the dialog was left.
 */
export function form(question: {
  heading: string;
  content: Child[];
  action: string;
  /** What the action says while it is under way. */
  busy?: string;
  submit: () => Promise<string | undefined>;
}): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = h("button", { type: "button", class: "button" }, "Cancel");
    const action = h("button", { type: "submit", class: "button primary" }, question.action);
    const error = h("p", { class: "share-error", role: "alert", hidden: true });
    const fields = h(
      "form",
      {},
      ...question.content,
      error,
      h("div", { class: "dialog-actions" }, cancel, action),
    );
    const dialog = modal(question.heading, [fields], document.body);
    let done = false;
    cancel.addEventListener("click", () => dialog.close());
    fields.addEventListener("submit", (event) => {
      event.preventDefault();
      action.disabled = true;
      setText(action, question.busy ?? question.action);
      void question.submit().then((wrong) => {
        action.disabled = false;
        setText(action, question.action);
        done = wrong === undefined;
        error.hidden = done;
        setText(error, wrong ?? "");
        if (done) dialog.close();
      });
    });
    dialog.addEventListener("close", () => resolve(done));
    fields.querySelector("input")?.focus();
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
