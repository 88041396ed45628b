import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mutations, simulatedMutations } from "../safeguards/all.ts";
import { changedText } from "../safeguards/mutation.ts";
import { repositoryRoot } from "../support/paths.ts";
import { bundleSimulation } from "./bundle.ts";
import { notFound } from "./mutation-search.ts";

const seeds = { first: 1, count: 40 };
let dir: string;
let file: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-simulation-"));
  file = join(dir, "simulation.cjs");
  await bundleSimulation(file);
});

afterAll(() => rm(dir, { recursive: true }));

/** All lines of the histories of seeds, in a separate thread: `order` is the seeds' order. */
async function linesOf(order: readonly number[]): Promise<Map<number, string>> {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { simulate } = require(workerData.file);
    const run = async () => {
      const texts = new Map();
      for (const seed of workerData.order) {
        const lines = [];
        const end = await simulate(seed, undefined, (line) => lines.push(line));
        texts.set(seed, [...lines, end.fingerprint].join("\\n"));
      }
      parentPort.postMessage(texts);
    };
    void run();`;
  const worker = new Worker(code, { eval: true, workerData: { file, order } });
  return new Promise((resolve, reject) => {
    worker.on("message", resolve);
    worker.on("error", reject);
  });
}

test("a seed gives the same history byte by byte, whatever ran before it", async () => {
  const order = Array.from({ length: seeds.count }, (_, index) => seeds.first + index);
  const [forwards, backwards] = await Promise.all([linesOf(order), linesOf(order.toReversed())]);
  for (const seed of order) expect(backwards.get(seed), `seed ${seed}`).toBe(forwards.get(seed));
  expect(new Set(forwards.values()).size).toBe(seeds.count);
});

test.each(mutations)("its text occurs once: $name", async (mutation) => {
  await changedText(mutation);
  if (mutation.inModel !== undefined) await changedText(mutation.inModel);
  expect(mutation.properties ?? mutation.scenario, "what shows its absence").toBeDefined();
});

test("the page about the simulation has the reasons why histories do not show safeguards", async () => {
  const page = await readFile(join(repositoryRoot, "docs/lab/simulation.md"), "utf8");
  expect(page).toContain(`\n\n${notFound()}\n\n`);
});

test("the page about past defects names safeguards that the search takes out", async () => {
  const page = await readFile(join(repositoryRoot, "docs/lab/past-defects.md"), "utf8");
  const rows = page.split("\n").filter((line) => /^\| (leak|lost|hang|growth|the same)/.test(line));
  const safeguards = rows.map((row) => row.split(" | ").at(-1)?.replace(/ \|$/, "") ?? "");
  const named = safeguards.filter((text) => !text.startsWith("[test]"));
  const known = simulatedMutations.map(({ name }) => name);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
  expect(named.length).toBeGreaterThan(15);
});
