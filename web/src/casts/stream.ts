import { addStream, getJob, jobLocation } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Job, Title } from "../api/types.ts";
import { refreshTitles } from "../library/store.ts";
import { h, setText, wait } from "../ui/dom.ts";

const POLL_MS = 500;

/** Whether a title has the form that casts send. */
export function hasStream(title: Title | undefined): boolean {
  return title?.forms.some(({ form }) => form === "ts") === true;
}

/** Offers to make the transport stream of a title. `made` is called when it is there. */
export function streamOffer(
  made: () => void,
  signal: AbortSignal,
): { element: HTMLElement; show(title: Title | undefined): void } {
  let of: Title | undefined;
  const words = h("p", { role: "status" });
  const bar = h("progress", { class: "tray-bar", max: 1, hidden: true, "aria-label": "Progress" });
  const make = h("button", { type: "button", class: "button small" }, "Make a transport stream");
  const element = h("div", { class: "cast-offer", hidden: true }, words, bar, make);
  const say = (text: string, isBusy: boolean) => {
    setText(words, text);
    bar.hidden = !isBusy;
    make.hidden = isBusy;
  };
  const follow = async (title: Title) => {
    bar.removeAttribute("value");
    say("The transport stream is made…", true);
    try {
      let job: Job = await addStream(title.id);
      while (["receiving", "ingesting", "running"].includes(job.state)) {
        await wait(POLL_MS, signal);
        job = await getJob(jobLocation(job.id));
        if (job.total_bytes) bar.value = job.done_bytes / job.total_bytes;
      }
      if (job.state !== "done") return say(job.error ?? "It was not made.", false);
      await refreshTitles();
      made();
    } catch (error) {
      if (!signal.aborted) say(asProblem(error).sentence, false);
    }
  };
  make.addEventListener("click", () => of && void follow(of));
  return {
    element,
    show(title) {
      of = title;
      element.hidden = title === undefined || hasStream(title);
      say("Casts send a transport stream, and this film has none yet. Nothing is transcoded.", false);
    },
  };
}
