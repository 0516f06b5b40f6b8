/**
 * Runs the browser tests: every `*.test.ts` of this directory, or those whose names contain one of
 * the arguments. Options go to `node --test`, as in `--test-name-pattern=seeking`.
 *
 * A test that fails runs again by itself when all have ended. One that passes then is named as
 * flaky, and the run is green. Not against a real server: there this run is a part of a test, which
 * runs again as a whole and is named itself.
 */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { ensureMedia } from "../mock/media.ts";
import { mediaDirectory } from "../places.ts";
import type { Failure } from "./failures.ts";

/** The tests mostly wait for films to play and for timers of the pages, not for a processor. */
const SIDE_BY_SIDE = 3;
/** How often a test may run in all. */
const TRIES = 3;
/** More failures than this have one cause, which running again would only hide. */
const FAILED_MAX = 10;

const isOption = (argument: string) => argument.startsWith("-");
const options = process.argv.slice(2).filter(isOption);
const wanted = process.argv.slice(2).filter((argument) => !isOption(argument));
const isReal = process.env.REEL_URL !== undefined;
const directory = import.meta.dirname;
const files = readdirSync(directory)
  .filter((name) => name.endsWith(".test.js"))
  .filter((name) => wanted.length === 0 || wanted.some((part) => name.includes(part)));

/** Runs all tests, and returns those that failed; `undefined` if what failed was no test. */
function runAll(): Failure[] | undefined {
  const kept = mkdtempSync(join(tmpdir(), "reel-browser-"));
  const list = join(kept, "failures");
  // Each file has a mock of its own, but a real server is one for all: a film that one file sends
  // would be counted by another.
  const concurrency = isReal ? 1 : SIDE_BY_SIDE;
  const { status } = spawnSync(
    process.execPath,
    [
      "--test",
      ...["--test-reporter=spec", "--test-reporter-destination=stdout"],
      ...[`--test-reporter=${join(directory, "failures.js")}`, `--test-reporter-destination=${list}`],
      `--test-concurrency=${concurrency}`,
      ...options,
      ...files.map((name) => join(directory, name)),
    ],
    { stdio: "inherit" },
  );
  const lines = readFileSync(list, "utf8").split("\n");
  rmSync(kept, { recursive: true });
  const failures = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Failure);
  if (status === 0) return [];
  const isTest = ({ file, nesting, name }: Failure) => nesting === 0 && file !== undefined && name !== file;
  return failures.length > 0 && failures.every(isTest) ? failures : undefined;
}

/** Whether a test passes when it runs by itself. Its output is quoted: it counts for nothing. */
function passesAlone({ name, file = "" }: Failure): boolean {
  const pattern = `^${name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}$`;
  const others = options.filter((option) => !option.startsWith("--test-name-pattern"));
  const { status, stdout } = spawnSync(
    process.execPath,
    ["--test", "--test-reporter=spec", ...others, `--test-name-pattern=${pattern}`, file],
    { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
  );
  for (const line of stdout.split("\n").filter((line) => line !== "" && !line.startsWith("﹣")))
    console.log(`| ${line}`);
  return status === 0 && /^ℹ pass 1$/m.test(stdout);
}

/** Whether a failed test passes after all. */
function settle(failure: Failure): boolean {
  const test = `${basename(failure.file ?? "", ".js")} ${failure.name}`;
  for (let attempt = 2; attempt <= TRIES; attempt++) {
    console.log(`again, by itself: ${test} (try ${attempt} of ${TRIES})`);
    if (!passesAlone(failure)) continue;
    console.log(`flaky test: web ${test}: passed at try ${attempt} of ${TRIES}`);
    return true;
  }
  return false;
}

// Otherwise every file of tests would make them at the same time.
await ensureMedia(mediaDirectory);
const failures = runAll();
const isRed = failures === undefined || failures.length > FAILED_MAX || (isReal && failures.length > 0);
// All of them, also after one that is red.
process.exitCode = isRed || failures.map(settle).includes(false) ? 1 : 0;
