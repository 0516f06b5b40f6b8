/** The lines with which a cast is received, for the shell. Pure. */

import type { Cast } from "../api/types.ts";

export interface Line {
  program: string;
  line: string;
  /** What is to be known of it. */
  note?: string;
}

/** The whole film by all programs, if stock players can play what is sent. */
export function linesOf(cast: Cast, origin: string): Line[] {
  const sdp = shellWord(new URL(cast.sdp, origin).href);
  const receive = `reel receive ${sdp}`;
  const own: Line[] = [
    { program: "mpv", line: `${receive} | mpv -`, note: "repairs lost packets" },
    { program: "ffplay", line: `${receive} | ffplay -`, note: "repairs lost packets" },
    { program: "File", line: `${receive} -o ${shellWord(`${cast.name}.ts`)}`, note: "repairs lost packets" },
  ];
  const scheme = cast.schedule?.scheme;
  if (scheme === "staggered") return [...own, ...playersOfAddress(cast, "from where the first channel is")];
  if (scheme !== undefined) return own;
  const whitelist = `file,http,tcp,rtp,udp${origin.startsWith("https:") ? ",https,tls" : ""}`;
  return [
    ...own,
    {
      program: "ffplay",
      line: `ffplay -protocol_whitelist ${whitelist} ${sdp}`,
      note: "without repair",
    },
    {
      program: "ffmpeg",
      line: `ffmpeg -protocol_whitelist ${whitelist} -i ${sdp} -c copy ${shellWord(`${cast.name}.ts`)}`,
      note: "into a file, without repair",
    },
    ...gstreamer(cast),
    ...playersOfAddress(cast, "without repair"),
  ];
}

/** Why there are no more lines. */
export function linesNote(cast: Cast): string {
  if (cast.schedule?.scheme === "staggered")
    return "Each channel sends the whole film, later than the channel before it. Other programs can play each of them alone.";
  if (cast.schedule)
    return "Only reel receive can follow the schedule. It puts the film together and gives it to a player.";
  return "Any number of receivers, at any time: the film is joined where it is.";
}

/** Of programs that take the address of a group, with its only sender if it is source-specific. */
function playersOfAddress(cast: Cast, note: string): Line[] {
  const { group, source } = cast;
  const sender = source?.includes(":") ? `[${source}]@` : source ? `${source}@` : "";
  const sources = source ? `?sources=${source}` : "";
  return [
    { program: "VLC", line: `vlc ${shellWord(`rtp://${sender}${group}`)}`, note },
    { program: "mpv", line: `mpv ${shellWord(`rtp://${group}${sources}`)}`, note },
  ];
}

/**
 * With the FEC, if there is one. The packets of the film have the type 33, those of the FEC 96.
 * udpsrc of GStreamer 1.22 cannot join a group for one sender.
 */
function gstreamer(cast: Cast): Line[] {
  const { host, port } = groupOf(cast.group);
  if (isSourceSpecific(cast.group)) return [];
  const source = (ports: number, caps: string) =>
    `udpsrc address=${shellWord(host)} port=${port + ports} caps="application/x-rtp,${caps}" ! queue`;
  const media = `${source(0, "media=video,clock-rate=90000,encoding-name=MP2T,payload=33")} ! r.recv_rtp_sink_0`;
  const rest = `r. ! rtpmp2tdepay ! filesink location=${shellWord(`${cast.name}.ts`)}`;
  if (!cast.fec)
    return [
      {
        program: "GStreamer",
        line: `gst-launch-1.0 rtpbin name=r ${media} ${rest}`,
        note: "into a file, without repair",
      },
    ];
  const bin = `rtpbin name=r latency=2500 fec-decoders='fec,0="rtpst2022-1-fecdec\\ size-time\\=5000000000";'`;
  const fec = `${source(2, "payload=96")} ! r.recv_fec_sink_0_0`;
  return [
    {
      program: "GStreamer",
      line: `gst-launch-1.0 ${bin} ${fec} ${media} ${rest}`,
      note: "into a file, repairs lost packets",
    },
  ];
}

/** "239.1.1.1:5000" or "[ff15::1]:5000" */
export function groupOf(group: string): { host: string; port: number } {
  const at = group.lastIndexOf(":");
  return { host: group.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(group.slice(at + 1)) };
}

/** Receivers join the sender and the group together (RFC 4607). */
export function isSourceSpecific(group: string): boolean {
  return /^232\.|^\[?ff3/i.test(group);
}

/** A word as a shell reads it: in quotes if it has characters that a shell reads otherwise. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
