/** What the mock says of disks and promises: made up, but moving as the real thing does. */

import type {
  Dashboard,
  DashboardCasts,
  Job,
  LateViewer,
  Member,
  ResourceUse,
  TrafficClass,
} from "../../src/api/types.ts";

export interface MockPromises {
  dashboard(sessions: Map<string, string>): Dashboard;
  classes: TrafficClass[];
  /** Undefined when they add up; else why not, as Reel says it. */
  change(wanted: TrafficClass[]): string | undefined;
  /** Undefined while other work continues. */
  start(kind: "scrub" | "rebuild" | "replace", of?: string): Job | undefined;
  cancel(id: string): boolean;
  /** All work so far, newest first. */
  jobs(): Job[];
  /** A disk that is out of use. */
  lost: number | undefined;
  /** How that disk is. */
  lostState: Member["state"];
  /** When disk 0, and with it the data of a viewer, was late last, in seconds before now. */
  lateAgo_s: number | undefined;
  /** What is said of casts. */
  casts: DashboardCasts;
}

/** Longer than any test takes on a slow machine, so that a job ends only when it is told to. */
const WORK_S = 600;
const WORK_BYTES = 41_000_000_000;

export function mockPromises(): MockPromises {
  const began_ms = Date.now();
  const works: { job: Job; since_ms: number }[] = [];
  const self: MockPromises = {
    lost: undefined,
    lostState: "missing",
    lateAgo_s: undefined,
    casts: { on_air: 0, waiting: 0, rate_bps: 0, late_packets: 0, lost_packets: 0 },
    classes: [
      { name: "periodic", kind: "periodic", share_permille: 700, network_permille: 850 },
      { name: "interactive", kind: "interactive", share_permille: 150, network_permille: 75 },
      { name: "aperiodic", kind: "aperiodic", share_permille: 150, network_permille: 75 },
    ],
    change(wanted) {
      const sum = wanted.reduce((all, { share_permille }) => all + share_permille, 0);
      if (sum !== 1000)
        return `these classes are not valid: their shares make ${sum} thousandths; they must make 1000`;
      self.classes = wanted;
      return undefined;
    },
    start(kind, of = "the volume") {
      if (self.jobs().some(({ state }) => state === "running")) return undefined;
      const job: Job = {
        id: `work-${works.length + 1}`,
        kind,
        file_name: of,
        state: "running",
        done_bytes: 0,
        total_bytes: WORK_BYTES,
        rate_bytes_per_s: 0,
        eta_s: null,
        title_id: null,
        error: null,
        result: null,
        warnings: [],
      };
      works.unshift({ job, since_ms: Date.now() });
      return job;
    },
    cancel(id) {
      const work = works.find(({ job }) => job.id === id);
      if (work?.job.state !== "running") return false;
      work.job.state = "cancelled";
      work.job.error = "it was told to end";
      return true;
    },
    jobs() {
      for (const { job, since_ms } of works) {
        if (job.state !== "running") continue;
        const part = Math.min(1, (Date.now() - since_ms) / (WORK_S * 1000));
        Object.assign(job, {
          done_bytes: Math.round(part * WORK_BYTES),
          rate_bytes_per_s: WORK_BYTES / WORK_S,
          eta_s: Math.round((1 - part) * WORK_S),
        });
        if (part === 1) Object.assign(job, { state: "done", result: "everything is as it was written" });
      }
      return works.map(({ job }) => job);
    },
    dashboard(sessions) {
      const now_s = 5000 + Math.floor((Date.now() - began_ms) / 1000);
      const playing = sessions.size;
      const load = Math.min(0.68, 0.16 + playing * 0.07);
      const use = (
        of: Pick<ResourceUse, "resource" | "member">,
        unit: "ns" | "bytes",
        capacity: number | null,
        part: number,
      ) => ({
        ...of,
        unit,
        used: Math.round((capacity ?? 4e6) * part),
        capacity,
        peak_used: Math.round((capacity ?? 4e6) * Math.min(1, part * 1.3)),
      });
      return {
        now_s,
        round_ns: 1_000_000_000,
        volume: { state: self.lost === undefined ? "ok" : "degraded", writable: true, read_only: null },
        members: [0, 1, 2, 3, 4].map((number) => member(number, now_s, load, self)),
        resources: [
          use({ resource: "memory" }, "bytes", 1_600_000_000, load * 0.6),
          use({ resource: "network" }, "bytes", null, load),
          use({ resource: "processor" }, "ns", 2_800_000_000, load * 0.2),
          ...[0, 1, 2, 3, 4].map((number) =>
            use({ resource: "disk", member: number }, "ns", 700_000_000, load + number * 0.02),
          ),
        ],
        classes: self.classes.map((spec, i) => ({
          ...spec,
          sent_bytes: [81_300_000_000, 412_000_000, 9_870_000_000][i] ?? 0,
          deadline_misses: i === 2 ? 3 : 0,
        })),
        sessions_total: playing,
        sessions_reserved: playing - (playing > 3 ? 1 : 0),
        sessions: [...sessions].map(([key, title], i) => ({
          key_hint: key.padEnd(4, "0").slice(0, 4),
          title,
          client: `192.168.1.${20 + i}`,
          class: "periodic",
          rate_bps: 1_700_000,
          state: i === 3 ? ("paused" as const) : ("playing" as const),
          reserved: i !== 3,
          position_s: 61 + 733 * i,
          sent_bytes: 43_000_000 * (i + 1),
          age_s: 64,
        })),
        sharing:
          playing > 1
            ? { groups: 1, followers: playing - 1, kept_bytes: 63_000_000 }
            : { groups: 0, followers: 0, kept_bytes: 0 },
        late: self.lateAgo_s === undefined ? [] : [lateViewer(self.lateAgo_s)],
        casts: self.casts,
        refusals: [
          { resource: "disk", count: 4 },
          { resource: "network", count: 0 },
          { resource: "sessions", count: 1 },
        ],
        jobs: self.jobs(),
      };
    },
  };
  return self;
}

function lateViewer(ago_s: number): LateViewer {
  const [key_hint, title, client] = ["7c01", "harbour-lights", "192.168.1.20"];
  return { key_hint, title, client, class: "periodic", units: 3, late_ms: 120, ago_s };
}

function member(number: number, now_s: number, load: number, state: MockPromises): Member {
  const { classes, lost, lostState, lateAgo_s } = state;
  const there = lost !== number;
  const wave = Math.sin(now_s / 7 + number * 1.7) * 60 + Math.sin(now_s / 2.3 + number) * 25;
  const slack_ms = there ? 1000 - load * 900 - 60 + wave : 1000;
  const used = [load * 700, 40 + wave / 4, 120 + wave];
  return {
    member: number,
    path: `/srv/reel/disk${number}/member`,
    state: there ? "present" : lostState,
    in_use: there,
    activity: "active",
    text: there
      ? `member ${number} is healthy`
      : `member ${number} is not at /srv/reel/disk${number}/member; films play from the others`,
    policy: "rounds",
    rounds: now_s,
    slack_ms,
    least_slack_ms: slack_ms - 70,
    late: number === 0 && lateAgo_s !== undefined ? 1 : 0,
    last_late: number === 0 && lateAgo_s !== undefined ? { class: "periodic", ago_s: lateAgo_s } : null,
    queued: there ? 3 + number : 0,
    in_device: there ? 2 : 0,
    errors: there ? 0 : 17,
    price: { read_request_us: 112.5, read_mib_us: 2210, independent_limits: false },
    // The first was measured beside something else that used it.
    measured_price: {
      read_request_us: number === 0 ? 23_200 : 112.5,
      read_mib_us: 2210,
      independent_limits: false,
    },
    classes: classes.map((spec, i) => ({
      class: spec.name,
      queued: i,
      quota_ms: spec.share_permille,
      used_ms: there ? Math.max(0, used[i] ?? 0) : 0,
      total_ms: 1,
      bytes: 0,
    })),
  };
}
