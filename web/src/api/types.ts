/** What the server's JSON interface (`/api/v1`) says. Units are in the names. */

export interface VideoTrack {
  track: number;
  width: number;
  height: number;
  codec: string;
  frame_rate: number;
  bitrate_bps: number;
}

export interface AudioTrack {
  track: number;
  language: string;
  name: string;
  codec: string;
  channels: number;
  sample_rate: number;
  default: boolean;
}

export interface SubtitleTrack {
  track: number;
  language: string;
  name: string;
  forced: boolean;
}

export interface Title {
  id: string;
  name: string;
  duration_s: number;
  /** RFC 3339. */
  added: string;
  bytes: number;
  video: VideoTrack[];
  audio: AudioTrack[];
  subtitles: SubtitleTrack[];
  poster: string;
  watch: { hls: string; dash: string; progressive: string };
  download: string;
  /** Present when the title cannot be read; says why. */
  problem?: string;
}

export interface Session {
  key: string;
  title: string;
  hls: string;
  dash: string;
  progressive: string;
  expires_in_s: number;
}

export interface Volume {
  /** "ok", "degraded" (films play, with less parity than made for) or "failed" (some bytes cannot be read). */
  state: string;
  writable: boolean;
  bytes: number;
  free_bytes: number;
  /** "present", or what is wrong; `text` says it for people. */
  members: { state: string; text: string }[];
}

export type JobState = "receiving" | "ingesting" | "done" | "failed";

export interface Job {
  id: string | number;
  file_name: string;
  state: JobState;
  done_bytes: number;
  total_bytes: number | null;
  rate_bytes_per_s: number | null;
  eta_s: number | null;
  title_id: string | null;
  error: string | null;
  warnings: string[];
}

/** RFC 9457 problem details, with the members a refusal adds. */
export interface ProblemBody {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  resource?: string;
  asked?: number;
  available?: number;
  grantable_rate?: number;
  retry_after?: number;
}
