import { renameTitle } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Title } from "../api/types.ts";
import { form } from "../ui/dialog.ts";
import { h } from "../ui/dom.ts";
import { refreshTitles } from "./store.ts";

/** Asks for another name of a title. */
export async function askName(title: Title): Promise<void> {
  const name = h("input", {
    type: "text",
    class: "text-field",
    value: title.name,
    "aria-label": "Name",
    autocomplete: "off",
    required: true,
  });
  await form({
    heading: "Rename title",
    content: [h("label", { class: "field" }, h("span", {}, "Name"), name)],
    action: "Rename",
    async submit() {
      try {
        await renameTitle(title.id, name.value);
        await refreshTitles();
        return undefined;
      } catch (error) {
        return asProblem(error).sentence;
      }
    },
  });
}
