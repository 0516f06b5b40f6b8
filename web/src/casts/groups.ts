/** Groups to send to. Pure. */

import type { Cast } from "../api/types.ts";
import { groupOf } from "./lines.ts";

const PORT = 5000;

/**
 * A group of 239.255/16, the range of a site (RFC 2365), with no cast in its 256 addresses: a
 * schedule takes one address after another.
 */
export function freeGroup(casts: readonly Cast[]): string {
  const taken = new Set(casts.filter(({ state }) => state !== "ended").flatMap(blocksOf));
  for (let block = 1; block < 255; block += 1) if (!taken.has(block)) return `239.255.${block}.1:${PORT}`;
  return `239.255.255.1:${PORT}`;
}

/** The third numbers of the addresses of a cast, if they are in 239.255/16. */
function blocksOf(cast: Cast): number[] {
  const [a, b, block = 0, last = 0] = groupOf(cast.group).host.split(".").map(Number);
  if (a !== 239 || b !== 255) return [];
  const end = block + Math.floor((last + (cast.schedule?.channels ?? 1) - 1) / 256);
  return Array.from({ length: end - block + 1 }, (_, i) => block + i);
}
