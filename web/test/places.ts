import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The compiled tests lie in web/test-results/js/test. */
export const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
export const dist = join(web, "dist");
export const results = process.env.REEL_TEST_OUT ?? join(web, "test-results");
export const mediaDirectory = join(web, "test-results", "media");
