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
  /** "present", or what was found at the start; `text` says it for people. */
  members: { state: string; in_use: boolean; text: string }[];
}

export type JobState = "receiving" | "ingesting" | "running" | "done" | "failed" | "cancelled";
export type VolumeWork = "scrub" | "rebuild" | "replace";

export interface Job {
  id: string | number;
  kind: "ingest" | VolumeWork;
  file_name: string;
  state: JobState;
  done_bytes: number;
  total_bytes: number | null;
  rate_bytes_per_s: number | null;
  eta_s: number | null;
  title_id: string | null;
  error: string | null;
  /** What came of work on the volume. */
  result: string | null;
  warnings: string[];
}

/** A class of traffic. The shares of all classes make 1000. */
export interface TrafficClass {
  name: string;
  kind: "periodic" | "interactive" | "aperiodic";
  share_permille: number;
}

export interface MemberClass {
  class: string;
  queued: number;
  /** Device time it may claim in a round under scarcity, and was given in the last whole one. */
  quota_ms: number;
  used_ms: number;
  total_ms: number;
}

export interface Member {
  member: number;
  path: string;
  /** As in Volume. */
  state: string;
  in_use: boolean;
  text: string;
  policy: string;
  rounds: number;
  /** Device time left beyond what is promised; below 0 something will be late. */
  slack_ms: number;
  least_slack_ms: number;
  late: number;
  queued: number;
  in_device: number;
  errors: number;
  price: { read_request_us: number; read_mib_us: number; independent_limits: boolean };
  classes: MemberClass[];
}

export interface ResourceUse {
  resource: string;
  /** Nanoseconds or bytes of each round; of media memory, bytes held. */
  unit: "ns" | "bytes";
  used: number;
  /** null: not known. */
  capacity: number | null;
  peak_used: number;
}

export interface SessionRow {
  key_hint: string;
  /** The title's id. */
  title: string;
  client: string;
  class: string;
  rate_bps: number;
  state: "playing" | "paused" | "unpromised";
  reserved: boolean;
  position_s: number;
  sent_bytes: number;
  age_s: number;
}

/** Sessions that play the same so closely that one of them reads for all. */
export interface Sharing {
  groups: number;
  followers: number;
  kept_bytes: number;
}

export interface Dashboard {
  now_s: number;
  round_ns: number;
  volume: { state: string; writable: boolean };
  members: Member[];
  resources: ResourceUse[];
  classes: (TrafficClass & { sent_bytes: number; deadline_misses: number })[];
  sessions_total: number;
  /** Those of all to which something is promised. */
  sessions_reserved: number;
  sessions: SessionRow[];
  sharing: Sharing;
  refusals: { resource: string; count: number }[];
  jobs: Job[];
}

/** RFC 9457 problem details, with the members a refusal adds. */
export interface ProblemBody {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  /** What is short: "member 3", "the network", "the processor", "media memory". */
  resource?: string;
  /** In one second of it: nanoseconds of members and processor, bytes of the network; bytes of memory. */
  asked?: number;
  available?: number;
  grantable_rate_bps?: number;
  retry_after_s?: number;
}
