import { setClasses } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Dashboard } from "../api/types.ts";
import { bytes, count } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { toast } from "../ui/toast.ts";
import { rows } from "./bar.ts";
import { shareOf, shareText } from "./words.ts";

type Row = Dashboard["classes"][number];

/**
 * The classes of traffic. Their shares are changed in place, all together, since they must add up.
 */
export function classTable(changed: () => void): { element: HTMLElement; show(classes: Row[]): void } {
  const body = h("tbody", {});
  const sum = h("span", { class: "share-sum", role: "status" });
  const error = h("p", { class: "share-error", role: "alert", hidden: true });
  const save = h("button", { type: "submit", class: "button primary small" }, "Save shares");
  const undo = h("button", { type: "button", class: "button small" }, "Undo");
  const actions = h("div", { class: "share-actions", hidden: true }, sum, undo, save);
  const form = h(
    "form",
    { class: "classes", novalidate: true },
    h(
      "table",
      { class: "grid-table" },
      h("caption", { class: "visually-hidden" }, "Classes of traffic and their shares"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["Class", "Kind", "Share", "Sent", "Late units"].map((word) => h("th", { scope: "col" }, word)),
        ),
      ),
      body,
    ),
    error,
    actions,
  );
  let known: Row[] = [];
  const fields = () => [...body.querySelectorAll("input")];
  const isChanged = () =>
    fields().some((field, i) => field.value !== shareText(known[i]?.share_permille ?? 0));
  const tell = () => {
    actions.hidden = !isChanged();
    const total = fields().reduce((all, field) => all + shareOf(field.value), 0);
    setText(sum, Number.isNaN(total) ? "" : `${shareText(total)}% in all`);
    actions.toggleAttribute("data-amiss", total !== 1000);
  };
  const showRows = rows<Row>(body, () => classRow(tell));

  const reset = () => {
    for (const [i, field] of fields().entries()) field.value = shareText(known[i]?.share_permille ?? 0);
    error.hidden = true;
    tell();
  };
  undo.addEventListener("click", reset);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send();
  });

  async function send(): Promise<void> {
    const shares = fields().map((field) => shareOf(field.value));
    const wrong = shares.findIndex((share) => !Number.isInteger(share) || share < 0);
    if (wrong >= 0) {
      setText(
        error,
        `“${fields()[wrong]?.value ?? ""}” is not a valid share for ${known[wrong]?.name ?? "this class"}; use a number such as 15 or 12.5.`,
      );
      error.hidden = false;
      return;
    }
    save.disabled = true;
    try {
      const now = await setClasses(
        known.map(({ name, kind }, i) => ({ name, kind, share_permille: shares[i] ?? 0 })),
      );
      known = known.map((row, i) => ({
        ...row,
        share_permille: now[i]?.share_permille ?? row.share_permille,
      }));
      error.hidden = true;
      reset();
      toast("The shares were changed");
      changed();
    } catch (thrown) {
      setText(error, asProblem(thrown).sentence);
      error.hidden = false;
    } finally {
      save.disabled = false;
    }
  }

  return {
    element: form,
    show(classes) {
      // A field that is being edited stays; everything else follows the server.
      const writing = known.length === classes.length && isChanged();
      if (!writing) known = classes;
      showRows(classes);
      if (!writing) reset();
      else tell();
    },
  };
}

function classRow(tell: () => void): { element: HTMLElement; show(row: Row): void } {
  const name = h("th", { scope: "row" });
  const kind = h("td", {});
  const share = h("input", { type: "text", inputmode: "decimal", class: "share-field", autocomplete: "off" });
  const sent = h("td", { class: "figure" });
  const late = h("td", { class: "figure" });
  share.addEventListener("input", tell);
  return {
    element: h(
      "tr",
      {},
      name,
      kind,
      h("td", { class: "share" }, share, h("span", { "aria-hidden": "true" }, "%")),
      sent,
      late,
    ),
    show(row) {
      setText(name, row.name);
      setText(kind, row.kind);
      share.setAttribute("aria-label", `Share of ${row.name} in percent`);
      setText(sent, bytes(row.sent_bytes));
      setText(late, row.deadline_misses === 0 ? "none" : count(row.deadline_misses, "unit"));
      late.toggleAttribute("data-amiss", row.kind === "periodic" && row.deadline_misses > 0);
    },
  };
}
