/**
 * Text tracks of a <video> which hls.js fills through us. Its own way puts <track> elements with
 * data: addresses into the page, which the content security policy forbids.
 */
export class TextTracks {
  private readonly video: HTMLVideoElement;
  private readonly tracks = new Map<number, TextTrack>();

  constructor(video: HTMLVideoElement) {
    this.video = video;
  }

  add(index: number, label: string, language: string, cues: Iterable<VTTCue>): void {
    const track = this.ensure(index, label, language);
    const known = new Set(Array.from(track.cues ?? [], identity));
    for (const cue of cues) {
      // The same segment comes again after a seek or a change of quality.
      if (!known.has(identity(cue))) track.addCue(cue);
    }
  }

  /** Only this track keeps its cues running; -1 for none. */
  select(index: number): void {
    // A phone's own full-screen player draws no page over the picture: it must draw the cues
    // itself.
    const mode = document.fullscreenEnabled ? "hidden" : "showing";
    for (const [i, track] of this.tracks) track.mode = i === index ? mode : "disabled";
  }

  get(index: number): TextTrack | undefined {
    return this.tracks.get(index);
  }

  /**
   * Tracks made by script cannot be taken out of a video again; they are emptied, and used by the
   * next engine.
   */
  clear(): void {
    for (const track of this.tracks.values()) {
      track.mode = "hidden";
      for (const cue of Array.from(track.cues ?? [])) track.removeCue(cue);
      track.mode = "disabled";
    }
    this.tracks.clear();
  }

  private ensure(index: number, label: string, language: string): TextTrack {
    const taken = new Set(this.tracks.values());
    let track =
      this.tracks.get(index) ??
      Array.from(this.video.textTracks).find(
        (t) => !taken.has(t) && t.label === label && t.language === language,
      );
    if (!track) track = this.video.addTextTrack("subtitles", label, language);
    this.tracks.set(index, track);
    // A disabled track has no list of cues to add to.
    if (track.mode === "disabled") track.mode = "hidden";
    return track;
  }
}

function identity(cue: TextTrackCue): string {
  return `${cue.startTime} ${cue.endTime} ${cue instanceof VTTCue ? cue.text : cue.id}`;
}
