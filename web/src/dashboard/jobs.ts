import { cancelJob, startVolumeJob } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Job, Member } from "../api/types.ts";
import { byteRate, bytes, timeLeft } from "../format.ts";
import { h, setText } from "../ui/dom.ts";
import { toast } from "../ui/toast.ts";
import { rows } from "./bar.ts";
import { rebuildable, repairWords } from "./words.ts";

/** Ended jobs that are still shown. */
const ENDED_MAX = 4;

const names = { scrub: "Scrub", rebuild: "Rebuild", replace: "Replace", ingest: "Ingest" } as const;

/** Jobs on the volume: the running one, the last results, and the buttons that begin one. */
export function volumeJobs(changed: () => void): {
  element: HTMLElement;
  show(jobs: Job[], writable: boolean, members: Member[]): void;
} {
  const list = h("ul", { class: "jobs" });
  const error = h("p", { class: "share-error", role: "alert", hidden: true });
  const begin = (work: "scrub" | "rebuild", words: string) => {
    const button = h("button", { type: "button", class: "button small" }, words);
    button.addEventListener("click", () => {
      startVolumeJob(work).then(
        () => {
          error.hidden = true;
          changed();
        },
        (thrown: unknown) => {
          setText(error, asProblem(thrown).sentence);
          error.hidden = false;
        },
      );
    });
    return button;
  };
  const scrub = begin("scrub", "Scrub");
  const rebuild = begin("rebuild", "Rebuild");
  const help = h(
    "p",
    { class: "quiet-line" },
    "Scrub reads everything and repairs silent damage. It uses only disk time that nothing else needs.",
  );
  const repair = h("p", { class: "repair", hidden: true });
  const showRows = rows<Job>(list, () => jobRow(changed));
  return {
    element: h("div", {}, h("div", { class: "job-buttons" }, scrub, rebuild), repair, help, error, list),
    show(jobs, writable, members) {
      const works = jobs.filter((job) => job.kind !== "ingest");
      const running = works.filter((job) => job.state === "running");
      for (const button of [scrub, rebuild]) button.disabled = running.length > 0 || !writable;
      rebuild.hidden = rebuildable(members).length === 0;
      const words = running.length > 0 ? "" : repairWords(members);
      repair.hidden = words === "";
      setText(repair, words);
      if (running.length > 0) error.hidden = true;
      showRows([...running, ...works.filter((job) => job.state !== "running").slice(0, ENDED_MAX)]);
    },
  };
}

/** Work that keeps other work from being begun. */
export function isVolumeWork(job: Job): boolean {
  return job.kind !== "ingest" && job.state === "running";
}

function jobRow(changed: () => void): { element: HTMLElement; show(job: Job): void } {
  const name = h("span", { class: "tray-name" });
  const stop = h("button", { type: "button", class: "button small" }, "Cancel");
  const bar = h("progress", { class: "tray-bar", max: 1 });
  const line = h("p", { class: "tray-line" });
  const element = h("li", { class: "job tray-item" }, h("div", { class: "tray-top" }, name, stop), bar, line);
  let id = "";
  stop.addEventListener("click", () => {
    cancelJob(id).then(changed, (thrown: unknown) => toast(asProblem(thrown).headline));
  });
  return {
    element,
    show(job) {
      id = job.id;
      const running = job.state === "running";
      element.dataset.state = job.state;
      setText(name, job.kind === "replace" ? `Replace ${job.file_name}` : names[job.kind]);
      stop.hidden = !running;
      stop.setAttribute("aria-label", `Cancel ${names[job.kind].toLowerCase()}`);
      bar.hidden = !running;
      bar.setAttribute("aria-label", `${names[job.kind]}: progress`);
      if (job.total_bytes) bar.value = job.done_bytes / job.total_bytes;
      else bar.removeAttribute("value");
      setText(line, describe(job));
    },
  };
}

function describe(job: Job): string {
  switch (job.state) {
    case "running": {
      const amount = job.total_bytes ? `${bytes(job.done_bytes)} of ${bytes(job.total_bytes)}` : "Starting";
      return [
        amount,
        job.rate_bytes_per_s ? byteRate(job.rate_bytes_per_s) : "",
        job.eta_s !== null && job.total_bytes ? timeLeft(job.eta_s) : "",
      ]
        .filter(Boolean)
        .join(" · ");
    }
    case "done":
      return ["Done", job.result ?? "", ...job.warnings].filter(Boolean).join(" · ");
    case "cancelled":
      return "Cancelled";
    default:
      return `Failed: ${job.error ?? "the server gave no reason"}`;
  }
}
