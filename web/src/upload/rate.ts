/** The speed of a transfer, smoothed over its last seconds. Pure: the caller brings the clock. */
export class RateMeter {
  private readonly window_ms: number;
  private readonly samples: { at_ms: number; bytes: number }[] = [];

  constructor(window_ms = 4000) {
    this.window_ms = window_ms;
  }

  /** `bytes` = all bytes so far. */
  sample(at_ms: number, bytes: number): void {
    this.samples.push({ at_ms, bytes });
    while (this.samples.length > 2 && at_ms - (this.samples[0]?.at_ms ?? at_ms) > this.window_ms)
      this.samples.shift();
  }

  /** Undefined until a quarter of a second has been seen: before that any figure is a guess. */
  bytesPerSecond(): number | undefined {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (!first || !last || last.at_ms - first.at_ms < 250) return undefined;
    return ((last.bytes - first.bytes) * 1000) / (last.at_ms - first.at_ms);
  }

  secondsLeft(total: number): number | undefined {
    const rate = this.bytesPerSecond();
    const last = this.samples.at(-1);
    return rate && last ? (total - last.bytes) / rate : undefined;
  }
}
