/**
 * Runs the browser tests: every `*.test.ts` of this directory, or those whose names contain one of
 * the arguments. Options go to `node --test`, as in `--test-name-pattern=seeking`.
 */

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ensureMedia } from "../mock/media.ts";
import { mediaDirectory } from "../places.ts";

/** The tests mostly wait for films to play and for timers of the pages, not for a processor. */
const SIDE_BY_SIDE = 3;

const isOption = (argument: string) => argument.startsWith("-");
const options = process.argv.slice(2).filter(isOption);
const wanted = process.argv.slice(2).filter((argument) => !isOption(argument));
const directory = import.meta.dirname;
const files = readdirSync(directory)
  .filter((name) => name.endsWith(".test.js"))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)));

// Otherwise every file of tests would make them at the same time.
await ensureMedia(mediaDirectory);
// Each file has a mock of its own, but a real server is one for all: a film that one file sends
// would be counted by another.
const concurrency = process.env.REEL_URL === undefined ? SIDE_BY_SIDE : 1;
const { status } = spawnSync(
  process.execPath,
  [
    "--test",
    "--test-reporter=spec",
    `--test-concurrency=${concurrency}`,
    ...options,
    ...files.map((name) => join(directory, name)),
  ],
  { stdio: "inherit" },
);
process.exitCode = status ?? 1;
