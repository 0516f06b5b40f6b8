import { defineConfig } from "vite";

// `npm run dev` serves the pages with hot reload and passes everything else to a running Reel:
// REEL_URL=http://127.0.0.1:8080 npm run dev
const reel = process.env.REEL_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  // The pages may be below a path of a proxy.
  base: "./",
  build: {
    target: "es2022",
    // The server's content security policy admits no data: URL except for images, and nothing
    // inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // hls.js alone is larger than the default bar; it is loaded only by the player page.
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/s", "/watch", "/files", "/img"].map((path) => [`^${path}/`, { target: reel }]),
    ),
  },
});
