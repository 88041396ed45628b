import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { cniPluginDir, nodeBinary, repositoryRoot } from "../support/paths.ts";

/** What the suite says of a requirement: an element of its `--json` file. */
export interface Finding {
  readonly id: string;
  readonly level: string;
  readonly kind: "standard" | "multus";
  readonly text: string;
  readonly verdict: "passed" | "failed" | "absent" | "not testable";
  readonly reason: string;
}

/** How the suite is run. */
export interface RunOptions {
  /** The content of the implementation file. */
  readonly file: object;
  /** A new directory for the files of this run. */
  readonly dir: string;
  readonly flags?: readonly string[];
  /** @default the suite's sources */
  readonly program?: readonly string[];
}

/** What a run wrote. */
export interface SuiteRun {
  readonly exitCode: number;
  readonly stderr: string;
  readonly tap: string;
  readonly markdown: string;
  readonly findings: readonly Finding[];
}

const sources = join(repositoryRoot, "e2e/npwg-conformance/main.ts");

/** Empty places for what plugins, daemons and `ip netns` keep outside their configuration. */
const inNamespaces = `
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock /var/lib/cni
mount -t tmpfs tmpfs /var/lib/cni
ip link set lo up
exec "$@"`;

/** Runs the suite in private network and mount namespaces. */
export async function runSuite({ file, dir, flags = [], program }: RunOptions): Promise<SuiteRun> {
  await mkdir(dir, { recursive: true });
  const path = (name: string): string => join(dir, name);
  await writeFile(path("implementation.json"), JSON.stringify(file));
  const unshare = ["--net", "--mount", "--propagation", "private", "--kill-child"];
  const suite = program ?? [nodeBinary(), sources];
  const files = ["tap", "markdown", "json"].flatMap((name) => [`--${name}`, path(name)]);
  const given = ["--implementation", path("implementation.json"), "--bin-dir", cniPluginDir()];
  const command = [
    ...unshare,
    "sh",
    "-c",
    inNamespaces,
    "sh",
    ...suite,
    ...given,
    ...files,
    ...flags,
  ];
  const { exitCode = -1, stderr } = await execa("unshare", command, { reject: false });
  const read = (name: string): Promise<string> => readFile(path(name), "utf8").catch(() => "");
  const [tap, markdown, json] = await Promise.all(["tap", "markdown", "json"].map(read));
  const findings = JSON.parse(json || "[]") as Finding[];
  return { exitCode, stderr, tap: tap ?? "", markdown: markdown ?? "", findings };
}
