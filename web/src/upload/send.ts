import { jobLocation, uploadUrl } from "../api/client.ts";
import { Problem, problemFrom } from "../api/problem.ts";
import type { Job } from "../api/types.ts";

export interface Accepted {
  job: Job;
  /** Where to ask how the job goes. */
  location: string;
}

/**
 * Sends the files of one title as the raw body of a POST. XMLHttpRequest, because fetch does not
 * report bytes sent. Rejects with a Problem; with the signal's reason when aborted.
 */
export function send(
  files: File[],
  name: string,
  replaces: string | null,
  progress: (sent: number) => void,
  signal: AbortSignal,
): Promise<Accepted> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", uploadUrl(files, name, replaces));
    request.setRequestHeader("content-type", "application/octet-stream");
    request.setRequestHeader("accept", "application/json");
    request.upload.addEventListener("progress", (event) => progress(event.loaded));
    request.addEventListener("load", () => {
      if (request.status < 200 || request.status >= 300) {
        reject(
          problemFrom(
            request.status,
            request.getResponseHeader("content-type"),
            request.responseText,
            request.getResponseHeader("retry-after"),
          ),
        );
        return;
      }
      try {
        const job = JSON.parse(request.responseText) as Job;
        const location = request.getResponseHeader("location");
        // It is relative to what was asked for.
        resolve({
          job,
          location: location ? new URL(location, request.responseURL).pathname : jobLocation(job.id),
        });
      } catch {
        reject(
          new Problem(request.status, {
            title: "Unreadable answer",
            detail: "The server took the file but its answer is not JSON.",
          }),
        );
      }
    });
    request.addEventListener("error", () =>
      reject(
        new Problem(0, {
          title: "The connection was interrupted",
          detail:
            "The file was not stored. Either the network failed, or the server refused the file while it was still being sent.",
        }),
      ),
    );
    request.addEventListener("abort", () => reject(signal.reason));
    signal.addEventListener("abort", () => request.abort());
    request.send(new Blob(files));
  });
}
