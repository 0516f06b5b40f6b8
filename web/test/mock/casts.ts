/** Casts of the mock: they are counted, and nothing is sent. */

import type { Cast, CastList, CastPlans, CastSlots, NewCast, Title } from "../../src/api/types.ts";
import { json, problem, text } from "./answers.ts";
import type { Route } from "./server.ts";

const JSON_TYPE = "application/json";
const TYPE = "urn:reel:problem:";

export interface MockCasts {
  casts: Cast[];
  /** Every cast that is added is refused, as a server is whose network is used up. */
  isFull: boolean;
}

export function mockCasts(): MockCasts {
  return { casts: [], isFull: false };
}

/** A cast as the server lists it. */
export function cast(title: Pick<Title, "id" | "name">, change: Partial<Cast>): Cast {
  const name = change.name ?? title.id;
  return {
    name,
    title: title.id,
    title_name: title.name,
    label: title.name,
    group: "239.255.1.1:5000",
    loop: true,
    playlist_place: 0,
    fec: { columns: 20, rows: 4, is_strict: true },
    state: "on-air",
    position_s: 95,
    duration_s: 742,
    rate_bps: 4_000_000,
    packets: 123_456,
    fec_packets: 30_864,
    late_packets: 0,
    lost_packets: 0,
    sdp: `/casts/${name}.sdp`,
    ...change,
  };
}

/** Loops of 1, 2, 4, ... segments, at slot 41 when the mock was started. */
function slotsOf({ schedule, group }: Cast, count: number, began_ms: number): CastSlots | undefined {
  if (!schedule) return undefined;
  const now_slot = 41.4 + (Date.now() - began_ms) / 1000 / schedule.slot_s;
  const first_slot = Math.floor(now_slot) - Math.floor(count / 4);
  const loops = Array.from({ length: schedule.channels }, (_, i) => 2 ** i);
  const segment = (loop: number, slot: number) => loop + (slot % loop);
  const arrival_slot = Math.ceil(now_slot);
  const received = loops.flatMap((loop, channel) =>
    Array.from({ length: loop }, (_, i) => ({
      segment: segment(loop, arrival_slot + i),
      channel,
      received_slot: arrival_slot + i,
    })),
  );
  const segments = received
    .sort((a, b) => a.segment - b.segment)
    .map((times, i) => ({ ...times, played_slot: arrival_slot + 1 + i }));
  return {
    slot_s: schedule.slot_s,
    segments: schedule.segments,
    now_slot,
    first_slot,
    channels: loops.map((loop) => ({
      group,
      segments: Array.from({ length: count }, (_, i) => segment(loop, first_slot + i)),
    })),
    client: { arrival_slot, until_slot: arrival_slot + (loops.at(-1) ?? 0), segments },
  };
}

/** The figures of two hours at 4 Mb/s. */
function plansOf(title: Title, query: URLSearchParams): CastPlans {
  const wait_s = Number(query.get("wait_s") ?? 30);
  const isBound = query.has("wait_s") || query.has("bandwidth_bps");
  const plan = (scheme: string, channels: number, client_channels: number) => ({
    scheme,
    channels,
    segments: 480,
    bandwidth_bps: channels * 4_000_000,
    peak_bps: null,
    slot_s: wait_s / 2,
    wait_s,
    best_wait_s: wait_s * 0.9,
    client_channels,
    buffer_bytes: 1_700_000_000,
    problem: channels > 64 ? `the schedule needs ${channels} channels, and a cast has at most 64` : null,
  });
  return {
    title: title.id,
    duration_s: title.duration_s,
    rate_bps: 4_000_000,
    fec_permille: 250,
    notes: title.forms.some(({ form }) => form === "ts")
      ? []
      : ["the title has no form ts; rates are those of its best rendition and all its sound"],
    plans: isBound
      ? [plan("staggered", 240, 1), plan("fast", 9, 9), plan("skyscraper-52", 13, 2), plan("rfs", 7, 7)]
      : [],
  };
}

export function castRoutes({ casts: state, titles }: { casts: MockCasts; titles: Title[] }): Route[] {
  const began_ms = Date.now();
  return [
    {
      method: "GET",
      path: /^\/api\/v1\/casts\/([^/]+)\/schedule$/,
      answer: ({ response, url }, name) => {
        const cast = state.casts.find((cast) => cast.name === name);
        const slots = cast && slotsOf(cast, Number(url.searchParams.get("slots") ?? 48), began_ms);
        if (slots) json(response, 200, JSON_TYPE, JSON.stringify(slots));
        else problem(response, 404, "This cast has no schedule", "it is sent to one group");
      },
    },
    {
      method: "GET",
      path: /^\/api\/v1\/cast-plans$/,
      answer: ({ response, url }) => {
        const title = titles.find(({ id }) => id === url.searchParams.get("title"));
        if (title) json(response, 200, JSON_TYPE, JSON.stringify(plansOf(title, url.searchParams)));
        else problem(response, 404, "No such title", "There is no such title.");
      },
    },
    {
      method: "GET",
      path: /^\/api\/v1\/casts$/,
      answer: ({ response }) =>
        json(response, 200, JSON_TYPE, JSON.stringify({ casts: state.casts } satisfies CastList)),
    },
    {
      method: "POST",
      path: /^\/api\/v1\/casts$/,
      answer: async ({ request, response }) => {
        const wanted = JSON.parse(await text(request)) as NewCast;
        const title = titles.find(({ id }) => id === wanted.title);
        if (!title) return problem(response, 404, "No such title", "There is no such title.");
        if (state.isFull) {
          const refusal = {
            type: `${TYPE}not-admitted`,
            title: "There is no room for this stream now",
            status: 503,
            detail: "the network is fully promised: 5.4 Mb/s are asked for, 2.1 Mb/s are free",
            resource: "network",
            grantable_rate_bps: 2_100_000,
          };
          return json(response, 503, "application/problem+json", JSON.stringify(refusal));
        }
        const { name = title.id, group, loop, scheme } = wanted;
        const added = cast(title, { name, group, loop, position_s: 0, state: "starting" });
        if (wanted.then?.length) added.playlist = [title.id, ...wanted.then];
        const planned = plansOf(title, new URLSearchParams({ wait_s: String(wanted.wait_s ?? 30) }));
        const plan = planned.plans.find((plan) => plan.scheme === scheme);
        if (scheme && !plan) return problem(response, 422, "This title is not cast", `no scheme ${scheme}`);
        if (plan) added.schedule = { ...plan, peak_bps: plan.peak_bps ?? 0 };
        state.casts.push(added);
        json(response, 201, JSON_TYPE, JSON.stringify(added));
      },
    },
    {
      method: "DELETE",
      path: /^\/api\/v1\/casts\/([^/]+)$/,
      answer: ({ response }, name = "") => {
        const at = state.casts.findIndex((cast) => cast.name === name);
        if (at < 0) return problem(response, 404, "No such cast", `there is no cast ${name} on the air`);
        state.casts.splice(at, 1);
        response.writeHead(204).end();
      },
    },
  ];
}
