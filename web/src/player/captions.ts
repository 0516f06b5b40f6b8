import { h } from "../ui/dom.ts";

/**
 * Draws the cues of a hidden text track. Not left to the browser, because it draws them under the
 * controls and in its own type.
 */
export class Captions {
  readonly element = h("div", { class: "captions" });
  private track: TextTrack | undefined;
  private readonly draw = () => this.render();

  show(track: TextTrack | undefined): void {
    if (track === this.track) return;
    this.track?.removeEventListener("cuechange", this.draw);
    this.track = track;
    track?.addEventListener("cuechange", this.draw);
    this.render();
  }

  private render(): void {
    // A track the browser draws itself (a phone's own player) is not drawn twice.
    const cues = this.track?.mode === "hidden" ? [...(this.track.activeCues ?? [])] : [];
    const top = h("div", { class: "captions-top" });
    const bottom = h("div", { class: "captions-bottom" });
    for (const cue of cues) {
      if (!(cue instanceof VTTCue)) continue;
      const line = h("div", { class: "cue", dir: "auto" }, cue.getCueAsHTML());
      (isHigh(cue) ? top : bottom).append(line);
    }
    this.element.replaceChildren(top, bottom);
  }
}

/**
 * Only upper or lower half is kept of a cue's position: enough to leave a sign in the picture
 * readable.
 */
function isHigh(cue: VTTCue): boolean {
  if (typeof cue.line !== "number") return false;
  return cue.snapToLines ? cue.line >= 0 && cue.line < 6 : cue.line < 40;
}
