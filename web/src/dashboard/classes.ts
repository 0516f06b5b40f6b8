import { setClasses } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Dashboard, LateViewer } from "../api/types.ts";
import { bytes, count } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { toast } from "../ui/toast.ts";
import { rows } from "./bar.ts";
import { isRecent, shareOf, shareProblem, shareText } from "./words.ts";

type Row = Dashboard["classes"][number];
/** And whether data of the class was late for a viewer not long ago. */
type ShownRow = Row & { isLate: boolean };

/** What is divided among the classes: every device, and the network. */
const SHARES = ["share_permille", "network_permille"] as const;
type ShareKey = (typeof SHARES)[number];

/**
 * The classes of traffic. Their shares are changed in place, all together, since they must add up.
 */
export function classTable(changed: () => void): {
  element: HTMLElement;
  show(classes: Row[], late: LateViewer[]): void;
} {
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
          ...["Class", "Kind", "Share", "Of the network", "Sent", "Late units"].map((word) =>
            h("th", { scope: "col" }, word),
          ),
        ),
      ),
      body,
    ),
    error,
    actions,
  );
  let known: Row[] = [];
  const fields = (key: ShareKey) => [...body.querySelectorAll<HTMLInputElement>(`input[name="${key}"]`)];
  const isChanged = () =>
    SHARES.some((key) => fields(key).some((field, i) => field.value !== shareText(known[i]?.[key] ?? 0)));
  const tell = () => {
    actions.hidden = !isChanged();
    const [all = 0, network = 0] = SHARES.map((key) =>
      fields(key).reduce((total, field) => total + shareOf(field.value), 0),
    );
    const text = `${shareText(all)}% in all, ${shareText(network)}% of the network`;
    setText(sum, Number.isNaN(all + network) ? "" : text);
    actions.toggleAttribute("data-amiss", all !== 1000 || network !== 1000);
  };
  const showRows = rows<ShownRow>(body, () => classRow(tell));

  const reset = () => {
    for (const key of SHARES)
      for (const [i, field] of fields(key).entries()) field.value = shareText(known[i]?.[key] ?? 0);
    error.hidden = true;
    tell();
  };
  undo.addEventListener("click", reset);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send();
  });

  async function send(): Promise<void> {
    const wrong = SHARES.map((key) =>
      shareProblem(
        fields(key).map((field, i) => ({ name: known[i]?.name ?? "", text: field.value })),
        key === "share_permille" ? "shares" : "shares of the network",
      ),
    ).find((problem) => problem !== undefined);
    if (wrong !== undefined) {
      setText(error, wrong);
      error.hidden = false;
      return;
    }
    const share = (key: ShareKey, i: number) => shareOf(fields(key)[i]?.value ?? "0");
    save.disabled = true;
    try {
      const now = await setClasses(
        known.map(({ name, kind }, i) => ({
          name,
          kind,
          share_permille: share("share_permille", i),
          network_permille: share("network_permille", i),
        })),
      );
      known = known.map((row, i) => ({
        ...row,
        share_permille: now[i]?.share_permille ?? row.share_permille,
        network_permille: now[i]?.network_permille ?? row.network_permille,
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
    show(classes, late) {
      // A field that is being edited stays; everything else follows the server.
      const writing = known.length === classes.length && isChanged();
      if (!writing) known = classes;
      const isLate = ({ name }: Row) => late.some((one) => one.class === name && isRecent(one));
      showRows(classes.map((row) => ({ ...row, isLate: isLate(row) })));
      if (!writing) reset();
      else tell();
    },
  };
}

function classRow(tell: () => void): { element: HTMLElement; show(row: ShownRow): void } {
  const name = h("th", { scope: "row" });
  const kind = h("td", {});
  const field = (name: ShareKey) =>
    h("input", { type: "text", name, inputmode: "decimal", class: "share-field", autocomplete: "off" });
  const share = field("share_permille");
  const network = field("network_permille");
  const sent = h("td", { class: "figure" });
  const late = h("td", { class: "figure" });
  share.addEventListener("input", tell);
  network.addEventListener("input", tell);
  const percent = (input: HTMLInputElement) =>
    h("td", { class: "share" }, input, h("span", { "aria-hidden": "true" }, "%"));
  return {
    element: h("tr", {}, name, kind, percent(share), percent(network), sent, late),
    show(row) {
      setText(name, row.name);
      setText(kind, row.kind);
      share.setAttribute("aria-label", `Share of ${row.name} in percent`);
      network.setAttribute("aria-label", `Share of ${row.name} of the network in percent`);
      setText(sent, bytes(row.sent_bytes));
      setText(late, row.deadline_misses === 0 ? "none" : count(row.deadline_misses, "unit"));
      late.toggleAttribute("data-amiss", row.isLate);
    },
  };
}
