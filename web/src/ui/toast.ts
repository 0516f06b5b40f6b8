import { h } from "./dom.ts";

const holder = h("div", { class: "toasts", role: "status" });

/** A line of text that disappears after a while. */
export function toast(text: string): void {
  if (!holder.isConnected) document.body.append(holder);
  const line = h("div", { class: "toast" }, text);
  holder.append(line);
  setTimeout(() => line.remove(), 6000);
}
