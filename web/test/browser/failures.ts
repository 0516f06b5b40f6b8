/** A reporter of `node --test`: a line of JSON for each test that failed. */

import type { TestEvent } from "node:test/reporters";

/** A test that failed: its name, its file, and how deep it lies in other tests. */
export interface Failure {
  name: string;
  file?: string | undefined;
  nesting: number;
}

export default async function* failures(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== "test:fail") continue;
    const { name, file, nesting } = data;
    yield `${JSON.stringify({ name, file, nesting } satisfies Failure)}\n`;
  }
}
