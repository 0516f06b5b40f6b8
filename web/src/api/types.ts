// Written by `cargo xtask api-types` from the types of the server. Do not edit.

/* The JSON of the server's API (`/api/v1`). Units are in the names. */

/** A title to which subtitles were added. */
export interface AddedSubtitles {
  /** The title as it is now. */
  title: Title;
  /** What was left out or guessed, each in a sentence. */
  warnings: string[];
}

/** A sound track. */
export interface AudioTrack {
  /** How many. */
  channels: number;
  /** As RFC 6381 writes it. */
  codec: string;
  /** Played when no other is chosen. */
  default: boolean;
  /** As BCP 47 writes it; empty if it is not known. */
  language: string;
  /** For people; may be empty. */
  name: string;
  /** Samples in a second. */
  sample_rate: number;
  /** The track's number in addresses. */
  track: number;
}

/** How many viewers of a stream there can be. */
export interface Capacity {
  /** How many there can be beside the open sessions; null if admission is off. */
  more_now: number | null;
  /** The rate of the stream. */
  rate_bps: number;
  /** What stops one more of those; null if only the number of reservations does. */
  stopped_by: ResourceId | null;
  /** How many there can be if no other session is open. */
  viewers: number;
}

/** A cast. */
export interface Cast {
  /** The length of one pass, in seconds. */
  duration_s: number;
  /** Why the network does not take its packets now. */
  fault?: string;
  /** The matrix of its FEC; missing if no FEC is sent. */
  fec?: CastMatrix;
  /** FEC packets sent. */
  fec_packets: number;
  /** The group and the port of the media. */
  group: string;
  /**
   * What receivers show: the name of the title, with that of the cast where it alone would not tell
   * the cast from others.
   */
  label: string;
  /** Packets that left more than 20 ms after they were due. */
  late_packets: number;
  /** Whether it begins again at its end. */
  loop: boolean;
  /** Packets that were not sent. */
  lost_packets: number;
  /** Its name. */
  name: string;
  /** Media packets sent. */
  packets: number;
  /** The ids of the titles that follow each other; missing if there is only one. */
  playlist?: string[];
  /** The place in that list of the title that is sent now, from 0. */
  playlist_place: number;
  /** The media time that is sent now, in seconds; 0 of a schedule, which sends several. */
  position_s: number;
  /** The mean rate of its media, in bits per second, without headers and FEC. */
  rate_bps: number;
  /** Why it waits or has ended. */
  reason?: string;
  /** Its schedule; missing if it is sent to one group. */
  schedule?: CastSchedule;
  /** The address of its description for receivers (SDP). */
  sdp: string;
  /** The only sender that receivers of the group join for; missing if it is not source-specific. */
  source?: string;
  /** How far it has come. */
  state: CastStage;
  /** The id of the title that is sent now. */
  title: string;
  /** Its name. */
  title_name: string;
  /**
   * Where other machines get its description (SDP); missing if the server does not listen at the
   * address from which it is sent.
   */
  url?: string;
}

/** What a channel sends. */
export interface CastChannel {
  /** Its group and port. */
  group: string;
  /** The segment of each slot, from 1; null if nothing is sent. */
  segments: (number | null)[];
}

/** A client that follows the schedule. */
export interface CastClient {
  /** The slot with which it begins to receive. It begins to play with the slot after that. */
  arrival_slot: number;
  /** What it receives and plays in these slots. */
  segments: CastSegment[];
  /** The slot after the last one in which it receives. */
  until_slot: number;
}

/**
 * Whether a cast is protected by FEC.
 * - "any": By the parity of the volume, whatever its matrix.
 * - "strict": By the parity of the volume, and refused unless SMPTE ST 2022-1 allows its matrix.
 * - "off": No FEC is sent.
 */
export type CastFec = "any" | "strict" | "off";

/** All casts. */
export interface CastList {
  /** By name, those that have ended included. */
  casts: Cast[];
}

/** The matrix of a cast's FEC. */
export interface CastMatrix {
  /** L. */
  columns: number;
  /** Whether SMPTE ST 2022-1 allows it, so that every receiver repairs with it. */
  is_strict: boolean;
  /** D: the packets that one FEC packet protects. */
  rows: number;
}

/** What one scheme costs. */
export interface CastPlan {
  /** What all groups are sent on average, in bits per second, without headers and FEC. */
  bandwidth_bps: number;
  /** The longest wait if the same groups carried as many segments as they can, in seconds. */
  best_wait_s: number;
  /** Bytes that a client keeps, at most. */
  buffer_bytes: number;
  /** How many groups there are. */
  channels: number;
  /** Groups that a client receives at a time, at most. */
  client_channels: number;
  /**
   * What the network carries at most, in bits per second with headers and FEC, when each group is
   * sent its largest segment; null if that is not known.
   */
  peak_bps: number | null;
  /** Why the title cannot be cast like this; null if it can. */
  problem: string | null;
  /** The scheme. */
  scheme: string;
  /** How many segments the title is cut into. */
  segments: number;
  /** The length of a slot, in seconds. */
  slot_s: number;
  /** The longest wait of a client, in seconds. */
  wait_s: number;
}

/** What it costs to send a title. */
export interface CastPlans {
  /** Its length, in seconds. */
  duration_s: number;
  /** What FEC adds, in thousandths of the rate. */
  fec_permille: number;
  /** What is to be known of the rate. */
  notes: string[];
  /** Each scheme; none if neither a wait nor a bandwidth was given. */
  plans: CastPlan[];
  /** The mean rate of one group, in bits per second, without headers and FEC. */
  rate_bps: number;
  /** The title's id. */
  title: string;
}

/** The schedule of a broadcast. */
export interface CastSchedule {
  /** What all groups are sent on average, in bits per second, without headers and FEC. */
  bandwidth_bps: number;
  /** How many groups there are, one address after another. */
  channels: number;
  /** What the network carries at most, in bits per second with headers and FEC. */
  peak_bps: number;
  /** The scheme. */
  scheme: string;
  /** How many segments the title is cut into. */
  segments: number;
  /** The length of a slot, in seconds. */
  slot_s: number;
  /** The longest wait of a client that plays one slot behind, in seconds. */
  wait_s: number;
}

/** A segment, as a client receives it. */
export interface CastSegment {
  /** The channel that it is received from, from 0. */
  channel: number;
  /** The slot in which it is played. */
  played_slot: number;
  /** The slot in which it is received. */
  received_slot: number;
  /** The segment, from 1. */
  segment: number;
}

/** Some slots of a cast with a schedule, and a client that joins at the next one. */
export interface CastSlots {
  /** The channels in order. */
  channels: CastChannel[];
  /** What a client receives that joins when the next slot begins. */
  client: CastClient;
  /** The first of these slots. */
  first_slot: number;
  /**
   * How many slots have passed since slot 0 began, with a fraction; below 0 before that, and null
   * while nothing is sent.
   */
  now_slot: number | null;
  /** How many segments the title is cut into. */
  segments: number;
  /** The length of a slot, in seconds. */
  slot_s: number;
}

/**
 * How far a cast has come.
 * - "starting": Its first packets are being read.
 * - "on-air": It is sent.
 * - "waiting": Its loop could not be promised again in time, and is asked for each second.
 * - "ended": It has ended.
 */
export type CastStage = "starting" | "on-air" | "waiting" | "ended";

/** A named place in a title, up to the next one. */
export interface Chapter {
  /** For people; may be empty. */
  name: string;
  /** Where it begins, in seconds. */
  start_s: number;
}

/**
 * How a class of traffic is served.
 * - "periodic": With deadlines that were reserved: audio and video of admitted sessions.
 * - "interactive": As soon as possible, since a person waits; without a reservation.
 * - "aperiodic": With what the others leave, but never nothing: downloads, ingest, checks.
 */
export type ClassKind = "periodic" | "interactive" | "aperiodic";

/** A class of traffic, and what it got since the start. */
export interface ClassUse {
  /** Units that were read after their deadline. */
  deadline_misses: number;
  /** How it is served. */
  kind: ClassKind;
  /** Its name. */
  name: string;
  /** Its share of the network, in thousandths. */
  network_permille: number;
  /** Media bytes taken by clients. */
  sent_bytes: number;
  /** Its share of every device under scarcity, in thousandths. */
  share_permille: number;
}

/** The state of admission, of the disks, and of all that uses them. */
export interface Dashboard {
  /** The casts. */
  casts: DashboardCasts;
  /** The classes of traffic. */
  classes: ClassUse[];
  /** Jobs, newest first. */
  jobs: Job[];
  /** For whom data was late, the newest first; at most the last 32. */
  late: LateViewer[];
  /** The disks, in the volume's order. */
  members: Member[];
  /** Seconds on the server's clock, from an unknown beginning. */
  now_s: number;
  /** Refusals since the server started. */
  refusals: RefusalCount[];
  /** What is reserved of everything that can be used up; empty if admission is off. */
  resources: ResourceUse[];
  /** The length of a round. */
  round_ns: number;
  /** The first of them: those with a reservation first, the oldest first. */
  sessions: SessionRow[];
  /** How many of them hold a reservation. */
  sessions_reserved: number;
  /** How many sessions are open. */
  sessions_total: number;
  /** The sessions that share what one of them reads. */
  sharing: Sharing;
  /** The volume. */
  volume: DashboardVolume;
}

/** The casts, in short. */
export interface DashboardCasts {
  /** Packets of all that are listed that left more than 20 ms after they were due. */
  late_packets: number;
  /** Packets of all that are listed that were not sent. */
  lost_packets: number;
  /** How many are on the air. */
  on_air: number;
  /** What those on the air are sent, in bits per second with FEC, without headers. */
  rate_bps: number;
  /** How many wait until their loop can be promised again. */
  waiting: number;
}

/** The volume, in short. */
export interface DashboardVolume {
  /** Why they cannot. */
  read_only: string | null;
  /** How much of it works. */
  state: VolumeState;
  /** Titles can be added and removed. */
  writable: boolean;
}

/** Bytes of a title as one file, up to the next stretch. */
export interface FileStretch {
  /** The media time at which it is shown. */
  at_ns: number;
  /** Where it begins. */
  byte: number;
}

/** When the bytes of a title as one file (`download`, `progressive`) are shown. */
export interface FileTimes {
  /** The length of the file. */
  bytes: number;
  /** The media time of its end. */
  duration_ns: number;
  /** Its stretches in the order of the file. Both numbers ascend, from 0. */
  stretches: FileStretch[];
}

/** The layout of a volume. */
export interface Geometry {
  /** Data rows of a matrix (D). */
  data_rows: number;
  /** Parity rows of a matrix (P): how many members may be lost. */
  parity_rows: number;
  /** Symbols of a row (L). */
  row_symbols: number;
  /** Object bytes of a stripe. */
  stripe_bytes: number;
  /** Bytes of a symbol (E). */
  symbol_bytes: number;
  /** Bytes of a unit on its member. */
  unit_bytes: number;
  /** Rows of a unit (M). */
  unit_rows: number;
}

/** A job as the API shows it. */
export interface Job {
  /** Bytes of the current state's work done. */
  done_bytes: number;
  /** Why it failed. */
  error: string | null;
  /** Seconds until the current state's work is done, if it can be estimated. */
  eta_s: number | null;
  /** The file being taken; of work on the volume, what is worked on. */
  file_name: string;
  /** Names it in `/api/v1/jobs/{id}`. */
  id: string;
  /** What it is for. */
  kind: JobKind;
  /** Bytes per second, recently. */
  rate_bytes_per_s: number;
  /** What came of work on the volume, in words. */
  result: string | null;
  /** What is being done. */
  state: JobState;
  /** The title made. */
  title_id: string | null;
  /** All of them, if known. */
  total_bytes: number | null;
  /** What the operator should know. */
  warnings: string[];
}

/**
 * What a job is for.
 * - "ingest": A file becomes a title, or a title gets another form.
 * - "scrub": All that is stored is read, and silent damage repaired.
 * - "rebuild": What a member lacks is computed from the others and written to it.
 * - "replace": A member gets a replacement.
 */
export type JobKind = "ingest" | "scrub" | "rebuild" | "replace";

/** The jobs of a server, newest first. */
export interface JobList {
  /** Those that run, and the last ones that ended. */
  jobs: Job[];
}

/**
 * What a job is doing.
 * - "receiving": The file is being received.
 * - "ingesting": It is being stored, or waits for others to be stored.
 * - "running": Work on the volume continues.
 * - "done": The file is a title, or the work is done.
 * - "failed": The file did not become a title, or the work was not done; `error` says why.
 * - "cancelled": It was ended before it was done.
 */
export type JobState = "receiving" | "ingesting" | "running" | "done" | "failed" | "cancelled";

/** A request that was late. */
export interface LateRequest {
  /** Seconds since then. */
  ago_s: number;
  /** The name of its class. */
  class: string;
}

/** Data that was late for a session. The session may have ended since. */
export interface LateViewer {
  /** Seconds since then. */
  ago_s: number;
  /** The name of the class in which the data was wanted. */
  class: string;
  /** The address of its client, or the user of its program as `user 1000`. */
  client: string;
  /** The first characters of the session's key. */
  key_hint: string;
  /** How late the latest of them was. */
  late_ms: number;
  /** The title's id. */
  title: string;
  /** How many units were late, within a few seconds of each other. */
  units: number;
}

/**
 * A session as any client sees it. A key opens its session, so only the client that opened the
 * session is told it.
 */
export interface ListedSession {
  /** Seconds without a request after which the session ends. */
  expires_in_s: number;
  /** The first characters of the key, which tell two sessions from each other. */
  key_hint: string;
  /** The title's id. */
  title: string;
}

/** A disk. */
export interface Member {
  /** Whether it answers. */
  activity: MemberActivity;
  /** What each class has of it. */
  classes: MemberClass[];
  /** Requests that failed. */
  errors: number;
  /** Requests in the device. */
  in_device: number;
  /** It is read and written. */
  in_use: boolean;
  /** The last of those; null if there was none. */
  last_late: LateRequest | null;
  /** Requests given to the device after their deadline was out of reach. */
  late: number;
  /** The least slack of the last rounds. */
  least_slack_ms: number;
  /** What they cost when it was measured. */
  measured_price: Price;
  /** Its number in the volume. */
  member: number;
  /** Where it is. */
  path: string;
  /** How its requests are scheduled: `rounds` keeps reservations. */
  policy: string;
  /** What its reads are found to cost while it works. */
  price: Price;
  /** Requests that wait for the device. */
  queued: number;
  /** Rounds begun. */
  rounds: number;
  /** Device time left in this round beyond what is reserved; below 0 some of it will be late. */
  slack_ms: number;
  /** How it is. */
  state: MemberState;
  /** Its state in a sentence. */
  text: string;
}

/**
 * Whether a member answers its requests.
 * - "active": It answers.
 * - "idle": It has had no request for two minutes; its disk may sleep.
 * - "waking": It was idle, and its first request since waits: its disk spins up.
 * - "silent": It has requests and has answered none for 10 s, or 30 s if it was idle.
 */
export type MemberActivity = "active" | "idle" | "waking" | "silent";

/** What a class has of a disk. */
export interface MemberClass {
  /** Bytes read and written since the start. */
  bytes: number;
  /** The name of the class. */
  class: string;
  /** Requests that wait for the device. */
  queued: number;
  /** Device time that the class may claim in a round under scarcity. */
  quota_ms: number;
  /** Device time that it was given since the start. */
  total_ms: number;
  /** Device time that it was given in the last whole round. */
  used_ms: number;
}

/**
 * How a member is. It is in use if it is `present`, `swapped` or `repaired`.
 * - "present": In order.
 * - "swapped": In order, at the path of another member.
 * - "repaired": In order; a part of it that is kept twice was damaged and is repaired.
 * - "missing": Nothing is at its path, or it cannot be opened.
 * - "denied": It is there, but the server may not open or write it.
 * - "truncated": It is too short.
 * - "damaged": Its superblock cannot be read.
 * - "foreign": It belongs to another volume, or to none.
 * - "stale": The volume was written while it was missing.
 * - "failed": It failed while it was in use.
 * - "rebuilding": What it lacks is being written to it.
 */
export type MemberState = "present" | "swapped" | "repaired" | "missing" | "denied" | "truncated" | "damaged" | "foreign" | "stale" | "failed" | "rebuilding";

/** A title that is to be sent to a group. */
export interface NewCast {
  /** Whether it is announced to receivers that look for casts (SAP). */
  announce?: boolean;
  /**
   * The most that the network carries for all groups of a broadcast, in bits per second, with
   * headers and FEC, in its busiest slot.
   */
  bandwidth_bps?: number;
  /** The mark of its packets (RFC 2474), 0 to 63. */
  dscp: number;
  /** Whether FEC is sent. */
  fec: CastFec;
  /**
   * The group and the port of the media, for example `239.1.1.1:5000`. The port is even; RTCP is
   * sent to the next one, FEC to the one after that.
   */
  group: string;
  /** The network interface; without it, that of the routing table. */
  interface?: string;
  /** Whether it begins again at its end. */
  loop: boolean;
  /** The name of the cast, a part of its addresses. Without it, the title's id. */
  name?: string;
  /**
   * The scheme of a broadcast to several groups, one address after another: `rfs`, `fast`,
   * `staggered`, `skyscraper` or `skyscraper-12`. Needs `wait_s` or `bandwidth_bps`. Without it, or
   * with `linear`, the titles are sent to one group, as their clocks say.
   */
  scheme?: string;
  /** The ids of titles that follow it in the same group without a gap, in order. */
  then?: string[];
  /** The title's id. It must have the form `ts`. */
  title: string;
  /** How many networks its packets may cross, 1 to 255. */
  ttl: number;
  /** The longest wait of a client of a broadcast, in seconds. */
  wait_s?: number;
}

/** A destination that a session is to be played into. */
export interface NewOutlet {
  /**
   * The first byte of the title as one file that it gets. Without it, the first of all; or, if the
   * session is played into another outlet already, the next one of that.
   */
  from_byte?: number;
  /**
   * Seconds, from 1 to 3600: if the session's outlets are not listed for so long, they end. So
   * nothing is played on for a program that was killed. Without it, they end with the session. The
   * last one that is given is that of all outlets of the session.
   */
  lease_s?: number;
  /**
   * The destination: `file:NAME` for a new file of the directory that the server's configuration
   * names (`join.directory`), `tcp:ADDRESS:PORT` for what listens there, or `udp:ADDRESS:PORT` or
   * `rtp:ADDRESS:PORT` for datagrams to a host or a group, if the session plays a transport stream
   * (`join.to`); of such a session also `live:NAME` for a poured stream (`join.live`).
   */
  to: string;
}

/** A session on a poured stream that is wanted. */
export interface OpenPouredSession {
  /** The name of its class; without one, that of streams with deadlines. */
  class: string | null;
}

/** What is to be played. */
export interface OpenSession {
  /** A title's id, or `A+B`: the pictures of title A with the sound of title B. */
  title: string;
}

/** A destination that takes the place of another one. */
export interface OtherDestination {
  /**
   * The destination, as that of a new outlet. It begins with the byte after the last one that the
   * outlet has until then.
   */
  to: string;
}

/** An outlet of a session. */
export interface Outlet {
  /** Bytes that its destination has taken. */
  bytes: number;
  /** The first byte of the title as one file that it gets. */
  from_byte: number;
  /** Bytes among those that it has taken after they were due. */
  late_bytes: number;
  /** Its number in its session, from 0 on. */
  number: number;
  /**
   * How long it pauses then (d): a mean of its last pauses. What others need of the disks, the
   * network and the processors, and what the destination needs, is all in it.
   */
  pause_ms: number;
  /** Why it has ended, if that was before everything came. */
  reason?: string;
  /**
   * Bytes that it sends without a pause (N): a mean of its last runs; 0 before the first one has
   * ended.
   */
  run_bytes: number;
  /** How far it has come. */
  state: OutletStage;
  /** Its destination. */
  to: string;
}

/** The outlets of a session. */
export interface OutletList {
  /**
   * In the order in which they came. Those that have ended leave the list when others take their
   * places.
   */
  outlets: Outlet[];
}

/**
 * How far an outlet has come.
 * - "joined": The session is played into it.
 * - "complete": Everything came, and is where it should be.
 * - "ended": It has ended before.
 */
export type OutletStage = "joined" | "complete" | "ended";

/** A stream that a program pours. */
export interface Pour {
  /** Where it is played. */
  address: string;
  /** Bytes that have come. */
  bytes: number;
  /** Its media type. */
  content_type: string;
  /** How long after its time a byte is due at a viewer, in milliseconds. */
  delay_ms: number;
  /** Its name. */
  name: string;
  /** How fast it is played, in bits per second, as its program has declared. */
  rate_bps: number;
  /** Its viewers, players and programs. */
  viewers: number;
}

/** All poured streams. */
export interface PourList {
  /** By name. */
  pours: Pour[];
}

/** A session on a poured stream. It is joined to destinations: it has outlets as any session. */
export interface PouredSession {
  /** The name of its class. */
  class: string;
  /** Seconds without a request or an outlet after which the session ends. */
  expires_in_s: number;
  /** The session's secret: a client that knows it may join and end the session. */
  key: string;
  /** Where its outlets are. */
  outlets: string;
  /** `live/` and the name of the stream. */
  title: string;
}

/** The device time that reads cost. */
export interface Price {
  /**
   * Requests and bytes are limited independently: the longer of both times decides, not their sum.
   */
  independent_limits: boolean;
  /** Of a MiB. */
  read_mib_us: number;
  /** Of a request. */
  read_request_us: number;
}

/**
 * A problem document (RFC 9457). A refusal has the type `urn:reel:problem:not-admitted`, or
 * `urn:reel:problem:too-long` if asking again is of no use; `resource`, `member`, `asked`,
 * `available` and `grantable_rate_bps` are fields of refusals.
 */
export interface Problem {
  /**
   * What the stream needs of it in one round, in nanoseconds or bytes; of memory, the bytes held.
   */
  asked?: number;
  /** What is left in that round. */
  available?: number;
  /** What happened this time, and why. */
  detail: string;
  /** The rate at which the same stream could have been granted; 0: none. */
  grantable_rate_bps?: number;
  /** What to do about it, if `detail` does not say so. */
  help?: string;
  /** The job that prevents the request. */
  job?: string;
  /** Which disk, if it is one. */
  member?: number;
  /**
   * Present and true if it needs more than the whole share of its class: an idle server would
   * refuse it, too.
   */
  never?: boolean;
  /** What there is too little of. */
  resource?: ResourceCode;
  /** Seconds after which it makes sense to ask again; absent if it is not known, or never. */
  retry_after_s?: number;
  /** The status of the response. */
  status: number;
  /** The same for every problem of a type. */
  title: string;
  /** `urn:reel:problem:` and the kind of problem. */
  type: string;
}

/** Whether titles can be played. */
export interface Readiness {
  /** What was looked at. */
  checks: ReadinessCheck[];
  /** All that is needed for it is in order. */
  ready: boolean;
}

/** One of the things that were looked at. */
export interface ReadinessCheck {
  /** In words. */
  detail: string;
  /** What it is about. */
  name: string;
  /** In order. */
  ok: boolean;
}

/** How often sessions were refused because there was too little of one resource. */
export interface RefusalCount {
  /** How often. */
  count: number;
  /** What there was too little of; of all disks together. */
  resource: ResourceCode;
}

/** What a member is replaced with. */
export interface Replacement {
  /**
   * Whether a new file may be made there if there is nothing. In the volume's directory it is made
   * in any case.
   */
  create: boolean;
  /** The member's number. */
  member: number;
  /** An absolute path on the server. */
  path: string;
}

/**
 * What can be used up.
 * - "disk": Device time of a disk; where its requests and bytes are limited independently, that of
 * its requests.
 * - "disk-bytes": Device time of the bytes of a disk whose requests and bytes are limited
 * independently.
 * - "network": Bytes sent.
 * - "processor": Processor time of the threads that serve.
 * - "memory": Media memory.
 * - "sessions": The table of sessions, or the part of it that one client may hold.
 */
export type ResourceCode = "disk" | "disk-bytes" | "network" | "processor" | "memory" | "sessions";

/** One thing that can be used up. */
export interface ResourceId {
  /** Which disk, by its number in the volume; only of disks. */
  member?: number;
  /** What it is. */
  resource: ResourceCode;
}

/**
 * What an amount of a resource counts.
 * - "ns": Nanoseconds in a round.
 * - "bytes": Bytes in a round; of memory, bytes held.
 */
export type ResourceUnit = "ns" | "bytes";

/** How much of a resource is reserved. */
export interface ResourceUse {
  /** What can be reserved in a round; null: not known, and nothing is refused for its sake. */
  capacity: number | null;
  /** Which disk, by its number in the volume; only of disks. */
  member?: number;
  /** The most that is reserved in this or any later round. */
  peak_used: number;
  /** What it is. */
  resource: ResourceCode;
  /** What the numbers count. */
  unit: ResourceUnit;
  /** Reserved in this round. */
  used: number;
}

/** A session with its addresses. */
export interface Session {
  /** The name of its class. */
  class: string;
  /** The address of the DASH manifest. */
  dash: string;
  /** Seconds without a request after which the session ends. */
  expires_in_s: number;
  /** The address of the HLS playlist. */
  hls: string;
  /** The session's secret: a client that knows it may play and end the session. */
  key: string;
  /** Instead of `hls` or `dash`: a session reserves what is asked for first. */
  progressive: string;
  /**
   * What a start or a seek takes at most, from its beginning until its first segment is sent, if
   * the client's own line carries it. The first segment of a session is sent after `starts_in_s` +
   * `start_bound_s` at the latest.
   */
  start_bound_s: number;
  /**
   * Seconds until it starts: 0, or more if there is no room for it before. Media that is requested
   * earlier is sent then. Also more if its first segment is sent as slowly as it is shown; then
   * that segment is there when they are over.
   */
  starts_in_s: number;
  /** The title's id. */
  title: string;
}

/** What is to be another with a session. */
export interface SessionChange {
  /** The name of the class in which it is to continue. It is admitted there, or keeps its class. */
  class: string;
}

/** All open sessions. */
export interface SessionList {
  /** The oldest first. */
  sessions: ListedSession[];
}

/** A session, without its key, which is a secret of its client. */
export interface SessionRow {
  /** Seconds since it was opened. */
  age_s: number;
  /** The name of its class. */
  class: string;
  /** The address of its client, or the user of its program as `user 1000`. */
  client: string;
  /** The first characters of the key, which tell two sessions from each other. */
  key_hint: string;
  /**
   * The media time that is shown; of a client that is paused or gone, at most the end of what it
   * asked for.
   */
  position_s: number;
  /** The average rate of what is or was reserved for it. */
  rate_bps: number;
  /** It holds a reservation now. */
  reserved: boolean;
  /** Media bytes sent to it. */
  sent_bytes: number;
  /** Whether its bytes are reserved. */
  state: SessionState;
  /** The title's id. */
  title: string;
}

/**
 * Whether the bytes of a session are reserved.
 * - "playing": They are.
 * - "waiting": They are, from a later second on: it waits for its start.
 * - "displaced": The client has jumped to a position for which there was no room: it is sent what
 * no other session needs until there is.
 * - "paused": The client is silent: what was reserved is free, and its next request is admitted
 * again.
 * - "delivered": The client was sent everything to the end: nothing is reserved any more.
 * - "unpromised": They never were: its class has no deadlines, or admission is off.
 */
export type SessionState = "playing" | "waiting" | "displaced" | "paused" | "delivered" | "unpromised";

/** Sessions that play the same title closely enough that one of them reads for all. */
export interface Sharing {
  /** Sessions in them that find in memory what others have read. */
  followers: number;
  /** Groups of such sessions. */
  groups: number;
  /** Media memory that is reserved for those. */
  kept_bytes: number;
}

/** A file that a title was made from. */
export interface SourceFile {
  /** Its size. */
  bytes: number;
  /** Its name, without directories. */
  name: string;
}

/** How a title is stored. */
export interface StoredForm {
  /** Bits per second of everything in it, on average. */
  average_bps: number;
  /** The bytes that it takes of the volume. */
  bytes: number;
  /** `cmaf`, which players play; or `ts`, a transport stream as it is. */
  form: string;
  /** The highest rate over a second; of a transport stream only. */
  peak_bps?: number;
}

/** A track of subtitles. */
export interface SubtitleTrack {
  /** Shown even if no subtitles are chosen. */
  forced: boolean;
  /** As BCP 47 writes it; empty if it is not known. */
  language: string;
  /** For people; may be empty. */
  name: string;
  /** The track's number in addresses. */
  track: number;
}

/** A title. */
export interface Title {
  /** When it was added (RFC 3339). */
  added: string;
  /** Its sound tracks. */
  audio: AudioTrack[];
  /** The bytes that it takes of the volume. */
  bytes: number;
  /** Its chapters, by start. */
  chapters: Chapter[];
  /** The address of the whole title as one file, without a reservation. */
  download: string;
  /** Its length. */
  duration_s: number;
  /** The forms that it is stored in. */
  forms: StoredForm[];
  /** Names it in addresses. */
  id: string;
  /** Its name for people. */
  name: string;
  /** The address of its picture. */
  poster: string;
  /** Present when the title cannot be played: why. */
  problem?: string;
  /** The first file that it was made from. */
  source: SourceFile;
  /** Its subtitles. */
  subtitles: SubtitleTrack[];
  /** The renditions of its picture. */
  video: VideoTrack[];
  /**
   * What was left out of it or changed when it was added, each in a sentence; as many as are kept.
   */
  warnings: string[];
  /** Where it is played: each address opens a session. */
  watch: WatchAddresses;
}

/** What of a title is to be changed. */
export interface TitleChange {
  /** Its new name. */
  name: string;
}

/** All titles, by name. */
export interface TitleList {
  /** The titles. */
  titles: Title[];
}

/** A class of traffic. The shares of all classes add up to 1000. */
export interface TrafficClass {
  /** How it is served. */
  kind: ClassKind;
  /** Its name: lower-case letters, digits and `-`. */
  name: string;
  /** Its share of the network, in thousandths; the same as `share_permille` if left out. */
  network_permille: number;
  /** Its share of every device under scarcity, in thousandths. */
  share_permille: number;
}

/** A rendition of the picture. */
export interface VideoTrack {
  /** The average rate. */
  bitrate_bps: number;
  /** As RFC 6381 writes it. */
  codec: string;
  /** Pictures in a second. */
  frame_rate: number;
  /** In pixels. */
  height: number;
  /** The track's number in addresses. */
  track: number;
  /** In pixels. */
  width: number;
}

/** The state of a volume. */
export interface Volume {
  /** Bytes of titles it can hold in all, parity left out. */
  bytes: number;
  /** Of these, not in use. */
  free_bytes: number;
  /** How bytes are laid out. */
  geometry: Geometry;
  /** Its identity, in hexadecimal. */
  id: string;
  /** Its members in order. */
  members: VolumeMember[];
  /** Why they cannot. */
  read_only: string | null;
  /** How much of it works. */
  state: VolumeState;
  /** Number of titles. */
  titles: number;
  /** Titles can be added and removed. */
  writable: boolean;
}

/** The state of one member. */
export interface VolumeMember {
  /** Whether it answers. */
  activity: MemberActivity;
  /** Whether it is read and written. */
  in_use: boolean;
  /** Its number, from 0. */
  member: number;
  /** Where it is. */
  path: string;
  /** How it is. */
  state: MemberState;
  /** The same in a sentence. */
  text: string;
}

/**
 * How much of a volume works.
 * - "ok": Every member is in order.
 * - "degraded": Titles play, with less parity than the volume was made for.
 * - "failed": Some bytes cannot be read, or only until the server ends.
 */
export type VolumeState = "ok" | "degraded" | "failed";

/** The watched directory, and what has become of its files. */
export interface Watch {
  /** The directory; null if none is watched. */
  directory: string | null;
  /**
   * Its media files, those without a title first, then those with warnings, and what is not looked
   * at.
   */
  files: WatchFile[];
  /** How many more there are. */
  more: number;
  /** Why it cannot be read. */
  problem: string | null;
}

/** Addresses that open a session and lead to it. */
export interface WatchAddresses {
  /** To its DASH manifest. */
  dash: string;
  /** To its HLS playlist. */
  hls: string;
  /** To one MP4 file, for players without HLS or DASH. */
  progressive: string;
}

/** A file of the watched directory. */
export interface WatchFile {
  /** Its size. */
  bytes: number;
  /** Its path below the directory. */
  path: string;
  /** Why, and what to do, if there is no title. */
  reason: string | null;
  /** What has become of it. */
  state: WatchFileState;
  /** The id of the title that was made from it. */
  title_id: string | null;
  /** What of it was left out or changed, as many as are kept; the log of its ingest has all. */
  warnings: string[];
}

/**
 * What has become of a file of the watched directory.
 * - "waiting": It may be incomplete.
 * - "ingesting": It is being ingested.
 * - "taken": A title was made from it.
 * - "failed": It could not be ingested, and is tried again when it changes.
 * - "skipped": It is not ingested.
 */
export type WatchFileState = "waiting" | "ingesting" | "taken" | "failed" | "skipped";
