import type { Title } from "../api/types.ts";
import { count } from "../format.ts";
import { choose } from "../ui/dialog.ts";
import { joined, renditions, type Upload } from "./plan.ts";

/** Asks about files that look like renditions of one film; gives what is to be sent. */
export async function askRenditions(uploads: Upload[]): Promise<Upload[]> {
  let all = uploads;
  for (const group of renditions(uploads)) {
    const one = joined(group);
    const answer = await choose({
      heading: `Is this one film in ${count(group.length, "size")}?`,
      body: `${group.map(({ films }) => films[0].name).join(", ")}. As one title, the player takes the size that fits the viewer's line. The files must have their key frames at the same times.`,
      choices: ["Separate titles", "One title"],
    });
    if (answer === undefined) all = all.filter((upload) => !group.includes(upload));
    if (answer === "One title") all = [...all.filter((upload) => !group.includes(upload)), one];
  }
  return all;
}

/**
 * Asks about a file that is a title already. Gives the id of the title that is to be replaced, null
 * for a new title, undefined if nothing is to be sent.
 */
export async function askAgain(upload: Upload, titles: readonly Title[]): Promise<string | null | undefined> {
  const film = upload.films[0];
  const old = titles.find(({ source }) => source.name === film.name && source.bytes === film.size);
  if (!old) return null;
  const answer = await choose({
    heading: `“${film.name}” is here already`,
    body: `It is the title “${old.name}”. If it is replaced, its name and its addresses stay, and sessions that play it now can finish.`,
    choices: ["Add it again", "Replace"],
  });
  if (answer === "Replace") return old.id;
  return answer === undefined ? undefined : null;
}
