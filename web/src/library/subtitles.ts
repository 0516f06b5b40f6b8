import { addSubtitles } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Title } from "../api/types.ts";
import { form } from "../ui/dialog.ts";
import { h } from "../ui/dom.ts";
import { toast } from "../ui/toast.ts";
import { SUBTITLE_EXTENSIONS } from "../upload/plan.ts";
import { languageIn } from "./language.ts";
import { refreshTitles } from "./store.ts";

/** Asks for a file of subtitles for a title. Gives the title with them, unless it was left. */
export async function askSubtitles(title: Title): Promise<Title | undefined> {
  const file = h("input", {
    type: "file",
    class: "text-field",
    accept: SUBTITLE_EXTENSIONS.join(","),
    required: true,
  });
  const language = field({ placeholder: "en, de, pt-BR", maxlength: 12 });
  const label = field({ placeholder: "such as Commentary", maxlength: 200 });
  file.addEventListener("change", () => {
    const found = languageIn(file.files?.[0]?.name ?? "");
    if (found !== "") language.value = found;
  });
  let changed: Title | undefined;
  await form({
    heading: "Add subtitles",
    content: [
      h("p", {}, `To “${title.name}”: a file of SubRip, WebVTT or SubStation Alpha.`),
      named("File", file),
      named("Language (optional)", language),
      named("Label (optional)", label),
    ],
    action: "Add",
    busy: "Adding…",
    async submit() {
      const chosen = file.files?.[0];
      if (!chosen) return "Choose a file.";
      try {
        const given = { language: language.value, label: label.value };
        const added = await addSubtitles(title.id, chosen, given);
        changed = added.title;
        toast(["Subtitles added", ...added.warnings].join(". "));
        // The subtitles are stored, whether or not the list can be had again.
        await refreshTitles().catch(() => {});
        return undefined;
      } catch (error) {
        const problem = asProblem(error);
        // It begins with the name of the file, which is as it is.
        return problem.status === 422 ? problem.detail : problem.sentence;
      }
    },
  });
  return changed;
}

function field(more: { placeholder: string; maxlength: number }): HTMLInputElement {
  return h("input", { type: "text", class: "text-field", autocomplete: "off", spellcheck: false, ...more });
}

function named(words: string, input: HTMLInputElement): HTMLElement {
  input.setAttribute("aria-label", words);
  return h("label", { class: "field" }, h("span", {}, words), input);
}
