import type { CastSlots } from "../api/types.ts";
import { h, svg } from "../ui/dom.ts";
import { type Cell, cellsOf, colourOf, NOW_AT, rowHeight, SLOT_WIDTH, stripX } from "./geometry.ts";

const TOP = 20;

/** The drawing of some slots: a strip that is moved below a line that is now. */
export interface SlotsPicture {
  element: HTMLElement;
  /** What shows the strip. */
  frame: HTMLElement;
  /** Draws other slots. */
  draw(slots: CastSlots): void;
  /** Moves the strip so that this slot is at the line. */
  place(now: number): void;
  /** What is shown, for those who do not see it. */
  describe(text: string): void;
}

export function slotsPicture(): SlotsPicture {
  const labels = h("div", { class: "slots-labels", "aria-hidden": "true" });
  const strip = svg("g", { class: "slots-strip" });
  const line = svg("line", { class: "slots-now", y1: 0 });
  const picture = svg("svg", { class: "slots-picture", role: "img" }, strip, line);
  const frame = h("div", { class: "slots-frame" });
  frame.append(picture);
  let first_slot = 0;
  return {
    element: h("div", { class: "slots" }, labels, frame),
    frame,
    draw(slots) {
      first_slot = slots.first_slot;
      const height = rowHeight(slots.channels.length);
      const rows = slots.channels.length + 1;
      const tall = TOP + rows * height + 6;
      const width = frame.clientWidth;
      const set = (element: SVGElement, attributes: Record<string, number>) => {
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value.toFixed(1));
      };
      set(picture, { width, height: tall });
      set(line, { x1: width * NOW_AT, x2: width * NOW_AT, y2: tall });
      labels.replaceChildren(...labelsOf(rows, height));
      const cells = cellsOf(slots).map((cell) => drawn(cell, slots, height));
      strip.replaceChildren(...numbersOf(slots), ...cells, joined(slots, tall));
    },
    place(now) {
      const x = stripX(frame.clientWidth, now, first_slot);
      strip.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
    },
    describe: (text) => picture.setAttribute("aria-label", text),
  };
}

function labelsOf(rows: number, height: number): HTMLElement[] {
  return Array.from({ length: rows }, (_, i) => {
    const isLast = i === rows - 1;
    const text = isLast ? "played" : height < 16 && i % 5 !== 0 ? "" : String(i + 1);
    const label = h("span", {}, text);
    label.style.setProperty("height", `${height}px`);
    return label;
  });
}

/** The numbers of the slots. */
function numbersOf({ channels, first_slot }: CastSlots): SVGElement[] {
  return (channels[0]?.segments ?? []).flatMap((_, i) => {
    if ((first_slot + i) % 5 !== 0) return [];
    const number = svg("text", { class: "slots-number", x: i * SLOT_WIDTH + SLOT_WIDTH / 2, y: 13 });
    number.textContent = String(first_slot + i);
    return [number];
  });
}

function drawn({ row, slot, segment, isOfClient }: Cell, slots: CastSlots, height: number): SVGElement {
  const x = (slot - slots.first_slot) * SLOT_WIDTH;
  const y = TOP + row * height + (row === slots.channels.length ? 4 : 0);
  const box = svg("rect", {
    x: x + 1,
    y: y + 1,
    width: SLOT_WIDTH - 2,
    height: height - 2,
    rx: 3,
    fill: colourOf(segment, slots.segments),
  });
  const cell = svg("g", { class: isOfClient ? "slots-cell of-client" : "slots-cell" }, box);
  if (height >= 16) {
    const text = svg("text", { x: x + SLOT_WIDTH / 2, y: y + height / 2 + 4 });
    text.textContent = String(segment);
    cell.append(text);
  }
  return cell;
}

/** Where a client that joins now begins to receive. */
function joined({ client, first_slot }: CastSlots, tall: number): SVGElement {
  const x = (client.arrival_slot - first_slot) * SLOT_WIDTH;
  return svg("line", { class: "slots-joined", x1: x, x2: x, y1: TOP - 4, y2: tall });
}
