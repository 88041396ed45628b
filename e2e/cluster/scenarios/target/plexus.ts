import { existsSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "../../../support/paths.ts";
import { type RunResult, tryRun } from "../../machine/run.ts";
import { withPlexusImage } from "./images.ts";
import type { PodObject } from "./objects.ts";
import { eventually, isGiven, nodeField, type Target } from "./target.ts";

const system = "--namespace=kube-system";
const daemonPods = "--selector=app.kubernetes.io/name=plexus,app.kubernetes.io/component=node";

/** What kustomize makes of a folder, with the image under test unless another is given. */
export async function kustomize(target: Target, folder: string, image?: string): Promise<string> {
  return withPlexusImage(await target.kubectl("kustomize", join(repositoryRoot, folder)), image);
}

/** The folder with the manifests of Plexus. For a given cluster, PLEXUS_E2E_OVERLAY names another one. */
const overlay = (isGiven && process.env.PLEXUS_E2E_OVERLAY) || "deploy/overlays/metrics";

/** The folders that install Plexus, and the uninstaller. */
export const folders = {
  plexus: overlay,
  uninstaller: existsSync(join(repositoryRoot, overlay, "uninstall"))
    ? `${overlay}/uninstall`
    : "deploy/uninstall",
};

/** Applies crds/ and Plexus with the metrics for a Prometheus, and waits until they are in force. */
export async function installPlexus(target: Target): Promise<void> {
  await target.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
  await target.apply(await kustomize(target, folders.plexus));
  await waitForPlexus(target);
}

/** Waits until plexusd is ready on every node, which it is with its conf in place, and the node is. */
export async function waitForPlexus(target: Target): Promise<void> {
  await target.kubectl(system, "rollout", "status", "daemonset/plexus", "--timeout=240s");
  const node = `node/${target.nodeName}`;
  await target.kubectl("wait", "--for=condition=Ready", node, "--timeout=240s");
}

/** The status of the condition Ready of the node under test: `True`, `False` or `Unknown`. */
export async function nodeReady(target: Target): Promise<string> {
  return nodeField(target, '.status.conditions[?(@.type=="Ready")].status');
}

/** Waits for that status. */
export async function waitForReady(target: Target, expected: string): Promise<void> {
  await eventually(
    `the node's condition Ready is ${expected}`,
    async () => (await nodeReady(target)) === expected,
  );
}

/** The pod of plexusd on the node under test. */
export async function plexusPod(target: Target): Promise<PodObject> {
  const here = `--field-selector=spec.nodeName=${target.nodeName}`;
  const { items } = await target.get<{ items: PodObject[] }>("pods", system, daemonPods, here);
  const [pod, ...more] = items;
  if (pod === undefined || more.length > 0) {
    throw new Error(`there are ${items.length} pods of plexusd on ${target.nodeName}`);
  }
  return pod;
}

/** Runs Node in plexusd's container. */
export async function nodeInPlexusd(target: Target, ...args: string[]): Promise<string> {
  const { name } = (await plexusPod(target)).metadata;
  const container = ["exec", name, "--container=plexusd", "--"];
  return target.kubectl(system, ...container, "/plexus/node", ...args);
}

/** The sum of the metric's samples with these labels, as plexusd counts at the moment. @throws Error without any */
export async function metric(target: Target, name: string, labels: object = {}): Promise<number> {
  const script = `console.log(await (await fetch("http://127.0.0.1:19500/metrics")).text())`;
  const text = await nodeInPlexusd(target, "--input-type=module", "--eval", script);
  const parts = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const values = text.split("\n").flatMap((line) => {
    const [, of, given = "", value] = /^(\w+)(?:\{(.*)\})? ([\d.e+]+)$/.exec(line) ?? [];
    return of === name && parts.every((part) => given.split(",").includes(part))
      ? Number(value)
      : [];
  });
  if (values.length === 0) throw new Error(`plexusd has no metric ${name} with ${parts.join()}`);
  return values.reduce((sum, value) => sum + value);
}

/** Runs plexusctl where plexusd runs. */
export function plexusctl(target: Target, ...args: string[]): Promise<string> {
  return nodeInPlexusd(target, "/plexus/plexusctl.js", ...args);
}

/** Runs deploy/kubectl-plexus with a kubectl that reaches the cluster; `flags` are kubectl's own. */
export async function kubectlPlexus(
  target: Target,
  args: readonly string[],
  { flags = [], cwd }: { readonly flags?: readonly string[]; readonly cwd?: string } = {},
): Promise<RunResult> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-kubectl-"));
  const kubectl = join(dir.path, "kubectl");
  const path = process.env.PATH ?? "";
  const quoted = target.kubectlCommand(...flags).map((each) => `'${each}'`);
  const text = `#!/bin/sh\nPATH='${path}' exec ${quoted.join(" ")} "$@"\n`;
  await writeFile(kubectl, text, { mode: 0o755 });
  const script = join(repositoryRoot, "deploy/kubectl-plexus");
  const env = { PATH: `${dir.path}:${path}` };
  return await tryRun([script, ...args], { env, ...(cwd !== undefined && { cwd }) });
}

/** The processes on the node that have this for one of their arguments. */
export async function pidsWithArgument(target: Target, argument: string): Promise<string[]> {
  // In brackets, so that this grep does not find itself.
  const pattern = `${argument.slice(0, -1)}[${argument.at(-1)}]`;
  const find = `grep -lzx '${pattern}' /proc/[0-9]*/cmdline 2>/dev/null || true`;
  const output = await target.inNode(["sh", "-c", find]);
  return [...output.matchAll(/\/proc\/(\d+)\//g)].flatMap(([, pid]) => pid ?? []);
}

/** The process of plexusd, as the node sees it. */
export async function plexusdPid(target: Target): Promise<string> {
  const pids = await pidsWithArgument(target, "/plexus/plexusd.js");
  if (pids[0] === undefined || pids.length > 1) {
    throw new Error(`processes of plexusd: ${pids.join(", ") || "none"}`);
  }
  return pids[0];
}

/** Takes plexusd off all nodes without deleting its DaemonSet, as a bad rollout would. */
export async function parkPlexus(target: Target): Promise<void> {
  await setNodeSelector(target, { "plexus-e2e/nowhere": "true" });
  await eventually(
    "plexusd is gone",
    async () => (await target.kubectl(system, "get", "pods", daemonPods, "--output=name")) === "",
  );
}

/** Brings it back. */
export async function unparkPlexus(target: Target): Promise<void> {
  await setNodeSelector(target, { "plexus-e2e/nowhere": null });
}

async function setNodeSelector(target: Target, nodeSelector: object): Promise<void> {
  const patch = JSON.stringify({ spec: { template: { spec: { nodeSelector } } } });
  await target.kubectl(system, "patch", "daemonset", "plexus", "--type=merge", `--patch=${patch}`);
}

/** The newest log lines of plexusd, for the report of a failed test. */
export async function plexusLogs(target: Target): Promise<string> {
  const flags = ["--all-containers", "--prefix", "--tail=60"];
  const { stdout, stderr } = await target.tryKubectl(system, "logs", daemonPods, ...flags);
  return `${stdout}\n${stderr}`.trim();
}

/** The operator's configuration file; empty if there is none. */
export async function readConfig(target: Target): Promise<string> {
  const path = "--output=jsonpath={.data.config\\.yaml}";
  return target.kubectl(system, "get", "configmap", "plexus-config", "--ignore-not-found", path);
}

/** Gives plexusd a new pod, and waits until it is ready. */
export async function restartPlexus(target: Target): Promise<void> {
  await target.kubectl(system, "rollout", "restart", "daemonset/plexus");
  await waitForPlexus(target);
}

/** Replaces it; plexusd has it after a restart of its pod at the latest. */
export async function writeConfig(target: Target, text: string): Promise<void> {
  const metadata = { name: "plexus-config", namespace: "kube-system" };
  const data = { "config.yaml": text };
  await target.apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
}
