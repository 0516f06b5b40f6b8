/** The two playlists that the mock writes; those of the tracks are files. */

import type { SubtitleTrack } from "../../src/api/types.ts";
import { SECONDS, tracks } from "./media.ts";

export function master(added: Pick<SubtitleTrack, "track" | "language" | "name">[]): string {
  const lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"];
  // As Reel writes it: one group for each codec of sound, every rendition once for each group.
  for (const a of tracks.audio)
    lines.push(
      `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="${a.group}",NAME="${a.name}",LANGUAGE="${a.language}",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="${a.track}/media.m3u8"`,
    );
  for (const s of [...tracks.subtitles, ...added])
    lines.push(
      `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="text",NAME="${s.name}",LANGUAGE="${s.language}",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,URI="${s.track}/text.m3u8"`,
    );
  for (const v of tracks.video) {
    for (const a of tracks.audio) {
      const codecs = `avc1.${v.height > 400 ? "64001f" : "64001e"},${a.codec}`;
      lines.push(
        `#EXT-X-STREAM-INF:BANDWIDTH=${v.bitrate_bps + 100_000},CODECS="${codecs}",RESOLUTION=${v.width}x${v.height},FRAME-RATE=24.000,AUDIO="${a.group}",SUBTITLES="text"`,
        `${v.track}/media.m3u8`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

export function textPlaylist(): string {
  return `#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:${SECONDS}\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:${SECONDS},\ntext.vtt\n#EXT-X-ENDLIST\n`;
}
