import { clock, spokenTime } from "../format.ts";
import { h, setText } from "../ui/dom.ts";

/**
 * The time line: what was played, what is buffered, where the pointer is. The page handles the
 * arrow keys.
 */
export class SeekBar {
  readonly element: HTMLElement;
  private readonly line = h("div", { class: "seek-line" });
  private readonly ranges = h("div", { class: "seek-ranges" });
  private readonly hint = h("div", { class: "seek-hint", "aria-hidden": "true" });
  private readonly seek: (at_s: number) => void;
  private duration_s = 0;
  private dragged_s: number | undefined;

  constructor(seek: (at_s: number) => void) {
    this.seek = seek;
    this.line.append(this.ranges, h("div", { class: "seek-seen" }));
    this.element = h(
      "div",
      {
        class: "seek",
        role: "slider",
        tabindex: 0,
        "aria-label": "Position",
        "aria-valuemin": 0,
        "aria-valuemax": 0,
        "aria-valuenow": 0,
      },
      this.line,
      h("div", { class: "seek-knob" }),
      this.hint,
    );
    this.element.addEventListener("pointerdown", (event) => this.grab(event));
    this.element.addEventListener("pointermove", (event) => this.follow(event));
    this.element.addEventListener("pointerup", (event) => this.release(event));
    this.element.addEventListener("pointercancel", () => {
      this.dragged_s = undefined;
      this.element.removeAttribute("data-dragging");
    });
  }

  update(at_s: number, duration_s: number, buffered: TimeRanges): void {
    this.duration_s = Number.isFinite(duration_s) ? duration_s : 0;
    const shown_s = this.dragged_s ?? at_s;
    this.element.style.setProperty("--at", String(this.fraction(shown_s)));
    const words = `${spokenTime(shown_s)} of ${spokenTime(this.duration_s)}`;
    if (this.element.getAttribute("aria-valuetext") !== words) {
      this.element.setAttribute("aria-valuenow", String(Math.floor(shown_s)));
      this.element.setAttribute("aria-valuemax", String(Math.floor(this.duration_s)));
      this.element.setAttribute("aria-valuetext", words);
    }
    this.showBuffered(buffered);
  }

  private showBuffered(buffered: TimeRanges): void {
    while (this.ranges.childElementCount > buffered.length) this.ranges.lastElementChild?.remove();
    while (this.ranges.childElementCount < buffered.length)
      this.ranges.append(h("div", { class: "seek-range" }));
    [...this.ranges.children].forEach((range, i) => {
      const { style } = range as HTMLElement;
      style.setProperty("--from", String(this.fraction(buffered.start(i))));
      style.setProperty("--to", String(this.fraction(buffered.end(i))));
    });
  }

  private grab(event: PointerEvent): void {
    if (event.button !== 0 || this.duration_s === 0) return;
    this.element.setPointerCapture(event.pointerId);
    this.element.setAttribute("data-dragging", "");
    this.dragged_s = this.timeAt(event);
    this.follow(event);
  }

  private follow(event: PointerEvent): void {
    const at_s = this.timeAt(event);
    setText(this.hint, clock(at_s));
    this.element.style.setProperty("--hint", String(this.fraction(at_s)));
    if (this.dragged_s === undefined) return;
    this.dragged_s = at_s;
    this.element.style.setProperty("--at", String(this.fraction(at_s)));
  }

  private release(event: PointerEvent): void {
    if (this.dragged_s === undefined) return;
    const at_s = this.timeAt(event);
    this.dragged_s = undefined;
    this.element.removeAttribute("data-dragging");
    this.seek(at_s);
  }

  private timeAt(event: PointerEvent): number {
    const box = this.line.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * this.duration_s;
  }

  private fraction(at_s: number): number {
    return this.duration_s > 0 ? Math.min(1, Math.max(0, at_s / this.duration_s)) : 0;
  }
}
