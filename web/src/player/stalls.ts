/**
 * Counts how often and how long the picture stood while it should have moved. Waiting for the first
 * picture and waiting after a seek are not stalls; the caller knows the difference. Pure: the
 * caller brings the clock.
 */
export class StallMeter {
  private since_ms: number | undefined;
  private finished_ms = 0;
  private ended = 0;

  begin(now_ms: number): void {
    this.since_ms ??= now_ms;
  }

  end(now_ms: number): void {
    if (this.since_ms === undefined) return;
    const length = now_ms - this.since_ms;
    this.since_ms = undefined;
    // Decoders report waits of a frame or two, which are not visible.
    if (length < StallMeter.visible_ms) return;
    this.ended += 1;
    this.finished_ms += length;
  }

  /** Stops a stall that was none after all (the viewer paused or went elsewhere). */
  forget(): void {
    this.since_ms = undefined;
  }

  /** How long the present stall lasts; undefined when there is none that can be seen. */
  current_ms(now_ms: number): number | undefined {
    if (this.since_ms === undefined || now_ms - this.since_ms < StallMeter.visible_ms) return undefined;
    return now_ms - this.since_ms;
  }

  get count(): number {
    return this.ended;
  }

  get total_ms(): number {
    return this.finished_ms;
  }

  static readonly visible_ms = 100;
}
