import type { Problem as ProblemDocument } from "./types.ts";

/** A problem document, or as much of one as is known. */
export type ProblemBody = Partial<ProblemDocument>;

/** An answer that is not a success, or no answer at all (`status` 0). */
export class Problem extends Error {
  readonly status: number;
  readonly body: ProblemBody;
  /** Seconds after which asking again makes sense; from the body or the Retry-After header. */
  readonly retryAfterS: number | undefined;

  constructor(status: number, body: ProblemBody, retryAfterS?: number) {
    super(body.title ?? `The server answered ${status}`);
    this.status = status;
    this.body = body;
    this.retryAfterS = body.retry_after_s ?? retryAfterS;
  }

  get headline(): string {
    return this.message;
  }

  /** What happened this time, as a sentence by itself. */
  get sentence(): string {
    const text = this.detail || this.headline;
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** What happened this time, and what to do about it. */
  get detail(): string {
    const { detail, help } = this.body;
    return [detail, help].filter(Boolean).join("; ");
  }
}

/** The server was not reached. */
export function unreachable(): Problem {
  return new Problem(0, {
    title: "Reel does not answer",
    detail:
      "The server could not be reached. Check that it is running and that this device is on its network.",
  });
}

/**
 * Reads an error answer. Bodies that are not problem+json (a proxy's page, an empty body) still
 * give words.
 */
export function problemFrom(
  status: number,
  contentType: string | null,
  text: string,
  retryAfter: string | null,
): Problem {
  const seconds = retryAfter === null ? Number.NaN : Number.parseFloat(retryAfter);
  const retryAfterS = Number.isFinite(seconds) ? seconds : undefined;
  if (contentType?.includes("json")) {
    try {
      const body: unknown = JSON.parse(text);
      if (typeof body === "object" && body !== null)
        return new Problem(status, body as ProblemBody, retryAfterS);
    } catch {
      // Not JSON after all: the answer below says what is known.
    }
  }
  return new Problem(status, { title: statusWords(status), detail: unexplained(status) }, retryAfterS);
}

/** Any thrown value as a Problem, for one way of showing errors. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, { title: "Something went wrong in this page", detail: String(error) });
}

/** Reel gives reasons, so an answer without one comes from something in between. */
function unexplained(status: number): string {
  return status === 413
    ? "A proxy in front of the server does not let files of this size through. nginx has the limit client_max_body_size."
    : `The server answered ${status} without giving a reason. Is there a proxy in front of it?`;
}

function statusWords(status: number): string {
  if (status === 404) return "Not found";
  if (status === 413) return "The file is too large";
  if (status === 507) return "The volume is full";
  if (status >= 500) return "The server failed";
  return "The server refused";
}
