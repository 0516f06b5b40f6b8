import type { Title } from "../api/types.ts";
import { addressed } from "../root.ts";
import type { Actions } from "./controls.ts";

/**
 * Registers the title with the system: the lock screen's picture and name, the play key of a
 * keyboard or headphone.
 */
export function announceMedia(
  title: Title,
  video: HTMLVideoElement,
  actions: Actions,
  signal: AbortSignal,
): void {
  const media = navigator.mediaSession;
  if (!media) return;
  media.metadata = new MediaMetadata({
    title: title.name,
    artist: "Reel",
    artwork: [{ src: new URL(addressed(title.poster), location.href).href }],
  });
  const handlers: Partial<Record<MediaSessionAction, MediaSessionActionHandler>> = {
    play: () => actions.play(),
    pause: () => video.pause(),
    seekbackward: (details) => actions.seek(actions.at_s() - (details.seekOffset ?? 10)),
    seekforward: (details) => actions.seek(actions.at_s() + (details.seekOffset ?? 10)),
    seekto: (details) => {
      if (details.seekTime !== undefined) actions.seek(details.seekTime);
    },
  };
  const each = (handler: (action: MediaSessionAction) => MediaSessionActionHandler | null) => {
    for (const action of Object.keys(handlers) as MediaSessionAction[]) {
      try {
        media.setActionHandler(action, handler(action));
      } catch {
        // A browser that does not know this key.
      }
    }
  };
  each((action) => handlers[action] ?? null);
  signal.addEventListener("abort", () => {
    media.metadata = null;
    each(() => null);
  });
}
