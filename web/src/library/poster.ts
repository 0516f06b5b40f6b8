import type { Title } from "../api/types.ts";
import { addressed } from "../root.ts";
import { h, svg } from "../ui/dom.ts";

/**
 * The title's picture; where the server has none that loads, a card drawn from the title's name.
 */
export function poster(title: Pick<Title, "id" | "name" | "poster">): HTMLElement {
  const frame = h("div", { class: "poster" });
  if (!title.poster) {
    frame.append(placeholder(title.id, title.name));
    return frame;
  }
  const image = h("img", {
    src: addressed(title.poster),
    alt: "",
    loading: "lazy",
    decoding: "async",
    width: 640,
    height: 360,
  });
  image.addEventListener("load", () => image.classList.add("loaded"), { once: true });
  image.addEventListener("error", () => image.replaceWith(placeholder(title.id, title.name)), { once: true });
  frame.append(image);
  return frame;
}

/** The same drawing for the same id, always: three arcs of light and the first letters. */
function placeholder(id: string, name: string): SVGElement {
  const seed = hash(id);
  const hue = seed % 360;
  const turn = (seed >>> 9) % 360;
  const gradientId = `glow-${id}`;
  const tone = (offset: number, saturation: number, light: number) =>
    `hsl(${(hue + offset) % 360} ${saturation}% ${light}%)`;
  const arcs = [150, 108, 66].map((radius, i) =>
    svg("circle", {
      cx: 320,
      cy: 180,
      r: radius,
      fill: "none",
      stroke: tone(i * 24, 60, 68),
      "stroke-opacity": 0.22 + i * 0.12,
      "stroke-width": 14,
      "stroke-linecap": "round",
      "stroke-dasharray": `${radius * (1.6 + ((seed >>> (i * 5)) % 7) * 0.35)} ${radius * 6.4}`,
      transform: `rotate(${turn + i * 97} 320 180)`,
    }),
  );
  const letters = svg("text", { x: 320, y: 204, "text-anchor": "middle", class: "poster-letters" });
  letters.textContent = initials(name);
  return svg(
    "svg",
    { viewBox: "0 0 640 360", preserveAspectRatio: "xMidYMid slice", class: "loaded", "aria-hidden": "true" },
    svg(
      "defs",
      {},
      svg(
        "linearGradient",
        { id: gradientId, x1: 0, y1: 0, x2: 1, y2: 1 },
        svg("stop", { offset: 0, "stop-color": tone(0, 34, 26) }),
        svg("stop", { offset: 1, "stop-color": tone(48, 42, 13) }),
      ),
    ),
    svg("rect", { width: 640, height: 360, fill: `url(#${gradientId})` }),
    ...arcs,
    letters,
  );
}

/** At most two letters: "The Big Film" -> "BF". */
export function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "" && !/^(the|a|an)$/i.test(word));
  const chosen = words.length > 0 ? words : [name.trim() || "?"];
  return chosen
    .slice(0, 2)
    .map((word) => [...word][0] ?? "")
    .join("")
    .toUpperCase();
}

/** FNV-1a, 32 bits: spreads short ids evenly enough for colours. */
function hash(text: string): number {
  let state = 0x811c9dc5;
  for (const char of text) state = Math.imul(state ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return state;
}
