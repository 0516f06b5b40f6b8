/** Where the parts of the drawing of a schedule are. Pure. */

import type { CastSlots } from "../api/types.ts";

/** Pixels. */
export const SLOT_WIDTH = 30;
const ROW_HEIGHT = 22;
const LOW_ROW_HEIGHT = 12;
/** So many rows have room for numbers. */
const HIGH_ROWS_MAX = 16;

/** The line that is now, from the left, as a part of the width. */
export const NOW_AT = 0.25;

/** A segment in a slot. */
export interface Cell {
  row: number;
  slot: number;
  segment: number;
  /** A client that joins now receives or plays it. */
  isOfClient: boolean;
}

/** How many slots a width shows. */
export function slotsIn(width: number): number {
  return Math.max(6, Math.min(60, Math.ceil(width / SLOT_WIDTH)));
}

export function rowHeight(channels: number): number {
  return channels > HIGH_ROWS_MAX ? LOW_ROW_HEIGHT : ROW_HEIGHT;
}

/** All cells: a row for each channel, and one below for what the client plays. */
export function cellsOf({ channels, client, first_slot }: CastSlots): Cell[] {
  const received = new Set(
    client.segments.map(({ channel, received_slot }) => `${channel} ${received_slot}`),
  );
  const sent = channels.flatMap(({ segments }, row) =>
    segments.flatMap((segment, i) => {
      if (segment === null) return [];
      const slot = first_slot + i;
      return [{ row, slot, segment, isOfClient: received.has(`${row} ${slot}`) }];
    }),
  );
  const end = first_slot + (channels[0]?.segments.length ?? 0);
  const played = client.segments
    .filter(({ played_slot }) => played_slot >= first_slot && played_slot < end)
    .map(({ segment, played_slot }) => ({
      row: channels.length,
      slot: played_slot,
      segment,
      isOfClient: true,
    }));
  return [...sent, ...played];
}

/** From orange for the first segment to violet for the last one. */
export function colourOf(segment: number, segments: number): string {
  const hue = 30 + (270 * (segment - 1)) / Math.max(1, segments - 1);
  return `hsl(${hue.toFixed(0)} 62% 70%)`;
}

/** The slot that is sent now, with a fraction, so long after it was told. */
export function slotAfter(slots: CastSlots, elapsed_ms: number): number | undefined {
  return slots.now_slot === null ? undefined : slots.now_slot + elapsed_ms / 1000 / slots.slot_s;
}

/** How far the strip of slots is moved, so that `now` is at the line. */
export function stripX(width: number, now: number, first_slot: number): number {
  return width * NOW_AT - (now - first_slot) * SLOT_WIDTH;
}

/** What the drawing shows, in words. */
export function slotsInWords(slots: CastSlots, now: number): string {
  const slot = Math.max(0, Math.floor(now));
  const sent = slots.channels.flatMap(({ segments }, i) => {
    const segment = segments[slot - slots.first_slot] ?? null;
    return segment === null ? [] : [`channel ${i + 1} sends segment ${segment}`];
  });
  const { arrival_slot, until_slot } = slots.client;
  return (
    `Slot ${slot} of the schedule: ${sent.slice(0, 8).join(", ") || "nothing is sent"}. ` +
    `A client that joins now receives from slot ${arrival_slot} until slot ${until_slot}, ` +
    `and plays from slot ${arrival_slot + 1} on.`
  );
}
