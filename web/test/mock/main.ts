import { dist, mediaDirectory } from "../places.ts";
import { ensureMedia } from "./media.ts";
import { startMock } from "./server.ts";

const mock = await startMock({
  dist,
  media: await ensureMedia(mediaDirectory),
  port: Number(process.env.PORT ?? 8080),
  empty: process.env.EMPTY === "1",
});
console.log(`mock of Reel's web interface at ${mock.url}`);
