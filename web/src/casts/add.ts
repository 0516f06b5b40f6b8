import { addCast, listCasts } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { NewCast, Title } from "../api/types.ts";
import { knownTitle, knownTitles, refreshTitles } from "../library/store.ts";
import { form } from "../ui/dialog.ts";
import { h } from "../ui/dom.ts";
import { toast } from "../ui/toast.ts";
import { followerFields } from "./followers.ts";
import { freeGroup } from "./groups.ts";
import { type Bound, planPreview } from "./plan.ts";
import { hasStream, streamOffer } from "./stream.ts";
import { refusalWords } from "./words.ts";

/** Asks what is to be cast and how, and begins. Resolves when the dialog is closed. */
export async function askCast(chosen?: Title): Promise<void> {
  const casts = await listCasts().catch(() => []);
  if (!knownTitles()) await refreshTitles().catch(() => {});
  const life = new AbortController();
  const fields = castFields(chosen, freeGroup(casts), life.signal);
  const added = await form({
    heading: chosen ? `Cast “${chosen.name}”` : "Add a cast",
    content: [fields.element],
    action: "Cast",
    busy: "Casting…",
    submit: () => begin(fields.wanted()),
  });
  life.abort();
  if (added) toast("The cast begins");
}

async function begin(wanted: NewCast | string): Promise<string | undefined> {
  if (typeof wanted === "string") return wanted;
  try {
    await addCast(wanted);
    return undefined;
  } catch (error) {
    return refusalWords(asProblem(error));
  }
}

interface CastFields {
  element: HTMLElement;
  /** What is asked for, or what is missing. */
  wanted(): NewCast | string;
}

function castFields(chosen: Title | undefined, group: string, signal: AbortSignal): CastFields {
  const titles = [...(knownTitles() ?? [])].sort((a, b) => Number(hasStream(b)) - Number(hasStream(a)));
  const title = h(
    "select",
    { class: "select", "aria-label": "Film" },
    ...titles.map(({ id, name }) => h("option", { value: id, selected: id === chosen?.id }, name)),
  );
  const to = textField({ value: group, "aria-label": "Group and port", required: true });
  const ttl = textField({ type: "number", min: 1, max: 255, value: 1, "aria-label": "Networks" });
  const name = textField({ placeholder: "that of the film", maxlength: 64, "aria-label": "Name" });
  const loop = h("input", { type: "checkbox", checked: true });
  const once = h("label", { class: "check" }, loop, "Begin again at the end");
  const followers = followerFields(titles.filter(hasStream));
  const way = wayFields();
  const preview = planPreview(signal);
  const offer = streamOffer(() => changed(), signal);
  const changed = () => {
    once.hidden = way.isScheduled();
    followers.element.hidden = way.isScheduled() || !titles.some(hasStream);
    offer.show(knownTitle(title.value));
    if (title.value !== "") preview.ask(title.value, way.bound());
  };
  for (const field of [title, way.element]) field.addEventListener("input", changed);
  changed();
  return {
    element: h(
      "div",
      { class: "cast-form" },
      named("Film", title),
      offer.element,
      h(
        "div",
        { class: "cast-form-row" },
        named("Group and port", to),
        named("Networks (TTL)", ttl),
        named("Name", name),
      ),
      way.element,
      followers.element,
      once,
      preview.element,
    ),
    wanted() {
      if (title.value === "") return "There is no film to cast.";
      const plain = { title: title.value, group: to.value.trim(), ttl: Number(ttl.value), dscp: 0 };
      const cast: NewCast = { ...plain, fec: "any", loop: loop.checked };
      if (name.value.trim() !== "") cast.name = name.value.trim();
      const bound = way.bound();
      if (bound !== null) return { ...cast, loop: true, scheme: preview.scheme(), ...bound };
      const then = followers.ids();
      return then.length > 0 ? { ...cast, then } : cast;
    },
  };
}

/** One group, or several by a schedule that keeps to a wait or to a rate. */
function wayFields(): { element: HTMLElement; isScheduled(): boolean; bound(): Bound } {
  const plain = h("input", { type: "radio", name: "way", checked: true });
  const several = h("input", { type: "radio", name: "way" });
  const number = textField({ type: "number", min: 0.1, step: "any", value: 30, "aria-label": "Limit" });
  const unit = h(
    "select",
    { class: "select", "aria-label": "Kind of limit" },
    h("option", { value: "wait" }, "seconds of wait"),
    h("option", { value: "rate" }, "Mb/s on the network"),
  );
  const bound = h("div", { class: "cast-bound", hidden: true }, number, unit);
  const element = h(
    "fieldset",
    { class: "cast-way" },
    h("legend", {}, "How"),
    h(
      "label",
      { class: "check" },
      plain,
      "To one group, for all players: who joins sees the film where it is",
    ),
    h(
      "label",
      { class: "check" },
      several,
      "By a schedule to several groups: who joins sees the film from its beginning",
    ),
    bound,
  );
  element.addEventListener("input", () => {
    bound.hidden = !several.checked;
  });
  return {
    element,
    isScheduled: () => several.checked,
    bound: () => {
      const value = Number(number.value);
      if (!several.checked) return null;
      return unit.value === "wait" ? { wait_s: value } : { bandwidth_bps: Math.round(value * 1e6) };
    },
  };
}

function textField(more: Parameters<typeof h>[1]): HTMLInputElement {
  return h("input", { type: "text", class: "text-field", autocomplete: "off", spellcheck: false, ...more });
}

function named(words: string, field: HTMLElement): HTMLElement {
  return h("label", { class: "field" }, h("span", {}, words), field);
}

/** The button on the page of a title. */
export function castButton(icon: SVGElement, title: Title): HTMLElement {
  const button = h("button", { type: "button", class: "button quiet" }, icon, "Cast…");
  button.addEventListener("click", () => void askCast(title));
  return button;
}
