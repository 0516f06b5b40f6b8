import { svg } from "./dom.ts";

/** 24 x 24 drawings; `s:` strokes, `f:` fills. */
const drawings = {
  play: "f:M8 5.2v13.6a.6.6 0 0 0 .92.5l10.6-6.8a.6.6 0 0 0 0-1L8.92 4.7A.6.6 0 0 0 8 5.2z",
  pause: "f:M7 4.5h3.2v15H7zM13.8 4.5H17v15h-3.2z",
  back: "s:M15 5l-7 7 7 7",
  search: "s:M11 4.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.8 15.8L20 20",
  plus: "s:M12 5v14M5 12h14",
  close: "s:M6 6l12 12M18 6L6 18",
  check: "s:M5 12.5l4.5 4.5L19 7.5",
  more: "f:M12 4.3a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM12 10.3a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4zM12 16.3a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4z",
  edit: "s:M5 19l.9-3.9L15.600 5.400a1.6 1.6 0 0 1 2.3 0l.7.7a1.6 1.6 0 0 1 0 2.300L8.900 18.100zM14 7l3 3",
  trash: "s:M5 7h14M9.5 7V4.8h5V7M7 7l.8 12.2h8.4L17 7M10.4 10.5v5.5M13.6 10.5v5.5",
  download: "s:M12 4.5v10.5M7.5 11l4.5 4.3 4.5-4.3M5 19.3h14",
  upload: "s:M12 15.5V5M7.5 9L12 4.7 16.5 9M5 19.3h14",
  rewind: "s:M4.6 12.3a7.6 7.6 0 1 0 2.5-5.6M4.4 4v3.9h3.9 t:10",
  forward: "s:M19.4 12.3a7.6 7.6 0 1 1-2.5-5.6M19.6 4v3.9h-3.9 t:10",
  volume: "s:M4.5 9.7v4.6h3.2l4.3 3.7V6L7.7 9.7zM15.4 9.2a4 4 0 0 1 0 5.6M18 6.7a7.5 7.5 0 0 1 0 10.6",
  volumeLow: "s:M4.5 9.7v4.6h3.2l4.3 3.7V6L7.7 9.7zM15.4 9.2a4 4 0 0 1 0 5.6",
  muted: "s:M4.5 9.7v4.6h3.2l4.3 3.7V6L7.7 9.7zM15.5 9.7l4.6 4.6M20.1 9.7l-4.6 4.6",
  subtitles: "s:M3.8 5.5h16.4v13H3.8zM7 12h3.2M12.4 12H17M7 15.2h6M15.2 15.2H17",
  audio: "s:M4 10.5v3M8 7.5v9M12 4.5v15M16 8.5v7M20 10.8v2.4",
  speed: "s:M4.6 17.3a8.4 8.4 0 1 1 14.8 0M12 14.2l3.6-4.6",
  quality: "s:M4 7h9M17 7h3M4 17h3M11 17h9M15 4.8v4.4M9 14.8v4.4",
  pip: "s:M3.8 5.5h16.4v13H3.8zM12.5 12h4.8v3.7h-4.8z",
  fullscreen: "s:M4.5 9V4.5H9M15 4.5h4.5V9M19.5 15v4.5H15M9 19.5H4.5V15",
  windowed: "s:M9 4.5V9H4.5M19.5 9H15V4.5M15 19.5V15h4.5M4.5 15H9v4.5",
  keyboard: "s:M3.5 6.5h17v11h-17zM7 10h.01M10.3 10h.01M13.7 10h.01M17 10h.01M8.5 14h7",
  link: "s:M10 14l4-4M9 11.5l-2.7 2.7a3.2 3.2 0 0 0 4.5 4.5l2.7-2.7M15 12.5l2.7-2.7a3.2 3.2 0 0 0-4.5-4.5L10.500 8",
  warning: "s:M12 4.5l8.5 15h-17zM12 10v4.5M12 16.900h.01",
  cast: "s:M12 13.500v6M8.500 15.500a5 5 0 1 1 7 0M5.800 18a8.700 8.700 0 1 1 12.400 0",
  info: "s:M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 11v5M12 8.100h.01",
} as const;

export type IconName = keyof typeof drawings;

export function icon(name: IconName): SVGElement {
  const element = svg("svg", {
    viewBox: "0 0 24 24",
    width: 24,
    height: 24,
    "aria-hidden": "true",
    class: "icon",
  });
  for (const part of drawings[name].split(/ (?=[sft]:)/)) {
    const kind = part[0];
    const data = part.slice(2);
    if (kind === "t") {
      const text = svg("text", { x: 12, y: 15.2, "text-anchor": "middle", class: "icon-text" });
      text.textContent = data;
      element.append(text);
    } else {
      element.append(svg("path", { d: data, class: kind === "f" ? "icon-fill" : "icon-stroke" }));
    }
  }
  return element;
}

/** The mark: five discs around a hub, one of them the parity of the other four. */
export function mark(): SVGElement {
  const discs = [0, 1, 2, 3, 4].map((i) => {
    const angle = ((i * 72 - 90) * Math.PI) / 180;
    return svg("circle", {
      cx: (12 + 7.2 * Math.cos(angle)).toFixed(2),
      cy: (12 + 7.2 * Math.sin(angle)).toFixed(2),
      r: 3.1,
      class: i === 4 ? "mark-parity" : "mark-disc",
    });
  });
  return svg(
    "svg",
    { viewBox: "0 0 24 24", width: 24, height: 24, "aria-hidden": "true", class: "mark" },
    svg("circle", { cx: 12, cy: 12, r: 1.9, class: "mark-disc" }),
    ...discs,
  );
}
