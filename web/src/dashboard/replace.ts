import { replaceMember } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Member } from "../api/types.ts";
import { form } from "../ui/dialog.ts";
import { h } from "../ui/dom.ts";

/** Asks which file or device takes the place of a member, and begins. */
export async function askReplacement(member: Member, begun: () => void): Promise<void> {
  const name = `disk ${member.member}`;
  const path = h("input", {
    type: "text",
    class: "text-field",
    placeholder: "/dev/sdx",
    "aria-label": "File or device on the server",
    autocomplete: "off",
    spellcheck: false,
    required: true,
  });
  await form({
    heading: `Replace ${name}`,
    content: [
      h(
        "p",
        {},
        `Name an empty disk of the server, at least as large as the one that ${name} was, or a new file in the directory of the volume. It is filled from the other disks. What is not empty is not overwritten.`,
      ),
      h("label", { class: "field" }, h("span", {}, "File or device on the server"), path),
    ],
    action: "Replace",
    async submit() {
      try {
        await replaceMember({ member: member.member, path: path.value.trim(), create: false });
        begun();
        return undefined;
      } catch (error) {
        return asProblem(error).sentence;
      }
    },
  });
}
