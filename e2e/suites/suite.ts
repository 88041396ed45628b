import { join } from "node:path";
import { expect } from "vitest";
import { type Cluster, startCluster } from "../cluster/kubernetes/cluster.ts";
import { type Command, tryRun } from "../cluster/machine/run.ts";
import { installMultus, loadMultusImages } from "../cluster/scenarios/pages/multus.ts";
import { writePlexusImage } from "../cluster/scenarios/target/images.ts";
import { installPlexus } from "../cluster/scenarios/target/plexus.ts";
import { repositoryRoot } from "../support/paths.ts";

/** What attaches the pods of a suite: installs a column of docs/reference/suites.md. */
export const installers = {
  async Plexus(cluster: Cluster): Promise<void> {
    await cluster.node.loadImage(await writePlexusImage());
    await installPlexus(cluster);
  },
  async Multus(cluster: Cluster): Promise<void> {
    await loadMultusImages(cluster);
    await installMultus(cluster, "thick");
  },
  /** The primary network, without a meta-plugin. */
  async alone(cluster: Cluster): Promise<void> {
    await cluster.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
  },
};

/** A column of the page. */
export type Column = keyof typeof installers;

/** How many of a suite's tests passed, and how many failed. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
}

/** The tests of another project. */
export interface Suite {
  readonly name: string;
  /** Changes a new cluster before a column is installed. @default nothing */
  prepare?(cluster: Cluster): Promise<void>;
  /** Runs the tests, and returns what they print. */
  run(cluster: Cluster): Promise<string>;
  /** Reads the results from what they print. */
  count(output: string): Counts;
  /** The results, by column. */
  readonly expected: Partial<Record<Column, Counts>>;
}

/** The columns that a suite runs for: all that it names, or the one of WITH. @throws Error for another name */
export function columnsOf({ name, expected }: Suite): Column[] {
  const only = process.env.WITH || undefined;
  const all = Object.keys(expected) as Column[];
  const columns = all.filter((column) => only === undefined || column === only);
  if (columns.length === 0) throw new Error(`WITH=${only}: ${name} runs with ${all.join(", ")}`);
  return columns;
}

/** Runs a suite on a new cluster with a column, and compares the counts. */
export async function expectCounts(suite: Suite, column: Column): Promise<void> {
  await using cluster = await startCluster();
  await suite.prepare?.(cluster);
  await installers[column](cluster);
  const output = await suite.run(cluster);
  expect(suite.count(output), output).toEqual(suite.expected[column]);
}

/** Runs a command, whatever its exit status, and returns all that it prints. */
export async function outputOf(command: Command, options: { cwd?: string } = {}): Promise<string> {
  const { stdout, stderr } = await tryRun(command, options);
  return `${stdout}\n${stderr}`;
}

/** The results in Ginkgo's last lines; none if it did not come so far. */
export function ginkgoCounts(output: string): Counts {
  const [, passed = 0, failed = 0] = /(\d+) Passed \| (\d+) Failed/.exec(output) ?? [];
  return { passed: Number(passed), failed: Number(failed) };
}

/** The results of Go's tests, without those that consist of others. */
export function goCounts(output: string): Counts {
  const results = [...output.matchAll(/^ *--- (PASS|FAIL|SKIP): (\S+)/gm)];
  const names = results.map(([, , name = ""]) => name);
  const single = results.filter(
    ([, , name]) => !names.some((other) => other.startsWith(`${name}/`)),
  );
  const passed = single.filter(([, result]) => result === "PASS").length;
  return { passed, failed: single.length - passed };
}
