import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile, readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { run } from "../machine/run.ts";
import { addresses, controlPlaneBridge, nodeAddresses, nodeInterface } from "./addresses.ts";

/** Includes a build of Kubernetes from source if the cache has none. */
const coldBuildMs = 40 * 60_000;

const networkLinks = ["cni0", "node-1", "node-2", controlPlaneBridge, nodeInterface];

/**
 * Lists what a cluster left on the machine outside of its hosts: everything with its name or its addresses.
 */
async function tracesOf(directory: string): Promise<string[]> {
  const name = basename(directory);
  const links = networkLinks.join("|");
  const used = [1, 2].flatMap((index) => Object.values(nodeAddresses(index))).join("|");
  const listings: readonly (readonly [string, RegExp])[] = [
    [await readFile("/proc/self/mountinfo", "utf8"), new RegExp(name)],
    [(await readdir("/sys/fs/cgroup", { recursive: true })).join("\n"), new RegExp(name)],
    [(await readdir(dirname(directory))).join("\n"), new RegExp(name)],
    [await run(["ip", "-oneline", "link"]), new RegExp(`: (${links})[@:]`)],
    [await run(["ip", "route"]), new RegExp(used)],
    [await run(["nft", "list", "ruleset"]), new RegExp(addresses.apiService)],
  ];
  const files = ["/etc/cni/net.d/10-primary.conflist", "/var/lib/kubelet/pods"];
  return [
    ...listings.flatMap(([text, own]) => text.split("\n").filter((line) => own.test(line))),
    ...files.filter((path) => existsSync(path)),
  ];
}

/** The namespaces that a process is in, as the kernel names them. */
async function namespacesOf(pid: number | string): Promise<string[]> {
  const names = ["net", "mnt", "pid", "uts", "ipc"];
  return Promise.all(names.map((name) => readlink(`/proc/${pid}/ns/${name}`)));
}

/** Counts the processes in these namespaces. */
async function processesIn(namespaces: readonly string[]): Promise<number> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(pids.map((pid) => namespacesOf(pid).catch(() => [])));
  return all.filter((theirs) => theirs.some((each) => namespaces.includes(each))).length;
}

test(
  "a cluster is visible on the machine only as its directory and cgroups, and leaves nothing if the process that started it is killed",
  async () => {
    const script = `
    import { startCluster } from ${JSON.stringify(join(import.meta.dirname, "cluster.ts"))};
    const { directory, controlPlane, nodes } = await startCluster({ nodes: 2 });
    const hosts = [controlPlane.host, ...nodes.map(({ host }) => host)];
    console.log(JSON.stringify({ directory, pids: hosts.map(({ pid }) => pid) }));
    setInterval(() => undefined, 1_000);`;
    const holder = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [output] = await once(holder.stdout, "data");
    const { directory, pids } = JSON.parse(String(output)) as { directory: string; pids: number[] };
    const namespaces = (await Promise.all(pids.map(namespacesOf))).flat();
    const ours = await namespacesOf("self");
    expect(namespaces.filter((namespace) => ours.includes(namespace))).toEqual([]);
    expect(await processesIn(namespaces)).toBeGreaterThan(5);
    const traces = await tracesOf(directory);
    expect(traces.length).toBeGreaterThan(0);
    expect(traces.filter((trace) => !trace.includes(basename(directory)))).toEqual([]);

    holder.kill("SIGKILL");
    await waitUntil("no process is left", async () => (await processesIn(namespaces)) === 0, {
      timeoutMs: 10_000,
    });
    await waitUntil("no trace is left", async () => (await tracesOf(directory)).length === 0, {
      timeoutMs: 10_000,
    });
  },
  coldBuildMs,
);
