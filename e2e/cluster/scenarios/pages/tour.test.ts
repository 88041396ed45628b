import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../../support/paths.ts";
import { poll } from "../../../support/wait.ts";
import { type Cluster, startCluster } from "../../kubernetes/cluster.ts";
import { run } from "../../machine/run.ts";
import { filesOfPlexus } from "../install/uninstall.ts";
import { writePlexusImage } from "../target/images.ts";
import { skipGiven } from "../target/target.ts";

const path = join(repositoryRoot, "docs/user/tour.md");
const block = /^```console\n([\s\S]*?)^```$/gm;

/** Commands that only read: what they print may need a moment to come true. */
const reading = /^kubectl (?:plexus|get|exec)/;

/** `make docs TOUR=1` writes what the commands print into the page. */
const isWriting = process.env.PLEXUS_TOUR === "write";

test("docs/user/tour.md shows what its commands print on a cluster, and leaves nothing on the node", async (context) => {
  skipGiven(context);
  await using cluster = await startCluster();
  await cluster.node.loadImage(await writePlexusImage());
  const page = await readFile(path, "utf8");
  const recording = new Recording(cluster);
  const recorded: string[] = [];
  for (const [, shown = ""] of page.matchAll(block)) recorded.push(await recording.of(shown));
  const text = page.replaceAll(block, () => `\`\`\`console\n${recorded.shift()}\`\`\``);
  if (isWriting) await writeFile(path, text);
  else expect(text, firstDifference(text, page)).toBe(page);
  expect(await filesOfPlexus(cluster)).toEqual([]);
});

/** The line that was printed where the page has another: a summary of failures shows no more. */
function firstDifference(text: string, page: string): string {
  const shown = page.split("\n");
  return text.split("\n").find((line, n) => line !== shown[n]) ?? "a line is missing";
}

/** Runs the commands of a page in one session, and records what they print. */
class Recording {
  readonly #cluster: Cluster;
  /** Each MAC address, by its number on the page. */
  readonly #macs = new Map<string, string>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** A block of the page as it is printed now: each command after a `$`, and what it prints. */
  async of(shown: string): Promise<string> {
    let text = "";
    for (const [, command = "", output = ""] of shown.matchAll(/^\$ (.*)\n((?:(?!\$ ).*\n)*)/gm))
      text += `$ ${command}\n${await this.#record(command, output)}`;
    return text;
  }

  /** What a command prints. A reading one is repeated until that is as expected. */
  async #record(command: string, expected: string): Promise<string> {
    let printed = "";
    const print = async (): Promise<boolean> => {
      printed = this.#stable(await this.#run(command));
      return printed === expected || !reading.test(command);
    };
    await poll(print, { timeoutMs: isWriting ? 10_000 : 60_000, intervalMs: 500 });
    return printed;
  }

  async #run(command: string): Promise<string> {
    const script = `exec 2>&1\nPATH=$PATH:$PWD/deploy\n${command}`;
    const shell = ["bash", "-euc", script] as const;
    return run(this.#cluster.administratorCommand(...shell), { cwd: repositoryRoot });
  }

  /** Replaces what differs between two runs. */
  #stable(printed: string): string {
    const mac = (found: string): string => {
      const number = this.#macs.size + 1;
      const known = this.#macs.get(found) ?? `02:00:00:00:00:0${number}`;
      this.#macs.set(found, known);
      return known;
    };
    return `${printed.replaceAll(/^Waiting for .*\n/gm, "").trimEnd()}\n`
      .replaceAll(/(?:[0-9a-f]{2}:){5}[0-9a-f]{2}/g, mac)
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "2026-01-01T10:00:00.000Z")
      .replaceAll(/\b\S+ \([0-9a-f]{12}\)/g, "0.1.0 (1a2b3c4d5e6f)")
      .replaceAll(/(?<=container )[0-9a-f]{12}/g, "1a2b3c4d5e6f")
      .replaceAll(/\d+ (?=s\b|% of)/g, "10 ")
      .replace(/^\n$/, "");
  }
}
