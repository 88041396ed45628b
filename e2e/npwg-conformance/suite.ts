import { mkdtempSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiServer } from "./cluster/api-server.ts";
import { nodeName } from "./cluster/cluster.ts";
import { RealCluster } from "./cluster/real-cluster.ts";
import type { Implementation } from "./implementation.ts";
import type { JsonObject } from "./json.ts";
import { check, type Finding, type Requirement } from "./requirement.ts";
import { CniRuntime } from "./runtime/cni-runtime.ts";
import { startDaemon } from "./runtime/daemon.ts";
import { Delegates, defaultType } from "./runtime/delegates.ts";
import { fill } from "./template.ts";
import { cniVersion } from "./trial.ts";

/** What is run, and with what. */
export interface SuiteOptions {
  readonly implementation: Implementation;
  readonly requirements: readonly Requirement[];
  /** The directory of the reference plugins. */
  readonly binDir: string;
  /** A real cluster instead of the suite's own API server. */
  readonly kubeconfig?: string | undefined;
  /** Called after each requirement. */
  readonly onFinding?: (finding: Finding) => void;
}

/** How long watches of a daemon get to deliver new objects before an ADD. */
const settleMs = 100;

/** The default network of all pods. */
const defaultNetwork: JsonObject = {
  cniVersion,
  name: "npwg-default-network",
  plugins: [{ type: defaultType, capabilities: { portMappings: true } }],
};

/**
 * Checks the requirements one after the other in a scratch directory.
 * @throws Error if the environment lacks something, or the implementation's daemon does not start
 */
export async function runSuite(options: SuiteOptions): Promise<Finding[]> {
  const { kubeconfig, requirements, onFinding = () => undefined } = options;
  await using scratch = scratchDirectory();
  const paths = await prepareDirectories(scratch.dir);
  const delegates = await Delegates.install(join(scratch.dir, "cni"), options.binDir);
  const { binDir } = delegates;
  await using cluster =
    kubeconfig === undefined
      ? await ApiServer.start(paths.api)
      : await RealCluster.open(kubeconfig);
  const values = { ...paths, binDir, defaultNetwork, nodeName, ...cluster.values };
  const implementation = fill(options.implementation, values);
  const { daemon } = implementation;
  await writeFiles(implementation.files);
  const log = join(scratch.dir, "daemon.log");
  await using _daemon = daemon === undefined ? undefined : await startDaemon(daemon, log);
  const settle = (): Promise<void> => (daemon === undefined ? Promise.resolve() : sleep(settleMs));
  const runtime = new CniRuntime(implementation, binDir);
  const surroundings = { ...paths, implementation, cluster, delegates, runtime, settle };
  const findings: Finding[] = [];
  for (const requirement of requirements) {
    const finding = await check(requirement, surroundings);
    findings.push(finding);
    onFinding(finding);
  }
  return withoutStatus(findings) ? findings.map(notTestableWithoutStatus) : findings;
}

/** Whether the implementation does not publish network-status, which it MAY leave out. */
function withoutStatus(findings: readonly Finding[]): boolean {
  return findings.some((each) => each.lacksStatus && each.requirement.id === "N-5a");
}

function notTestableWithoutStatus(finding: Finding): Finding {
  if (!finding.lacksStatus || finding.verdict !== "failed") return finding;
  const reason = "the implementation publishes no network-status, which is optional";
  return { ...finding, verdict: "not testable", reason };
}

function scratchDirectory(): AsyncDisposable & { readonly dir: string } {
  const dir = mkdtempSync(join(tmpdir(), "npwg-conformance-"));
  return {
    dir,
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true, maxRetries: 5 }),
  };
}

/** Makes the directories, and the file of the default network. */
async function prepareDirectories(dir: string) {
  const paths = {
    dir,
    api: join(dir, "api"),
    confDir: join(dir, "net.d"),
    defaultNetworkDir: join(dir, "default.d"),
    defaultNetworkFile: join(dir, "default.d/10-default.conflist"),
    readinessFile: join(dir, "default-network-is-ready"),
  };
  for (const made of [paths.api, paths.confDir, paths.defaultNetworkDir]) await mkdir(made);
  await writeFile(paths.defaultNetworkFile, JSON.stringify(defaultNetwork));
  return paths;
}

async function writeFiles(files: JsonObject): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(path), { recursive: true });
    const text = typeof content === "string" ? content : JSON.stringify(content);
    await writeFile(path, text, { mode: 0o600 });
  }
}
