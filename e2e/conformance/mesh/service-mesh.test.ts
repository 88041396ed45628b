import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { IstioAgent, LinkerdAgent, type MeshAgent } from "#daemon/cni-conf/testing/mesh-agents.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { flavour } from "../../support/flavour.ts";
import { PlexusNode } from "../../support/node/plexus-node.ts";
import { ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { startPlexusd } from "../../support/plexusd.ts";
import { waitUntil } from "../../support/wait.ts";
import { cnitoolBinary } from "../tools.ts";

/*
 * A real plexusd keeps the directory that agents patch, and libcni (cnitool) runs the list that it finds there, with
 * plugins that record each of their runs. In the other flavour plexus-standalone serves these calls.
 */

const network = { cniVersion: "1.0.0", name: "plexus" };
const primaryFile = "10-primary.conflist";

interface Site {
  readonly node: PlexusNode;
  readonly plugins: ScriptedPlugins;
  readonly dirs: { readonly conf: string; readonly bin: string };
}

async function makeSite(): Promise<Site> {
  const stack = new AsyncDisposableStack();
  onTestFinished(() => stack.disposeAsync());
  const node = stack.use(await PlexusNode.create({ daemonConfig: { logLevel: "info" } }));
  const types = ["primary", "extra", "istio-cni", "linkerd-cni"];
  const plugins = await ScriptedPlugins.create(node.lab, ...types);
  const dirs = { conf: join(node.lab.dir, "net.d"), bin: plugins.binDir };
  await symlink(node.shim, join(dirs.bin, "plexus"));
  await mkdir(dirs.conf);
  const primary = { ...network, plugins: [{ type: "primary" }] };
  await writeFile(join(dirs.conf, primaryFile), JSON.stringify(primary));
  await writeFile(
    join(node.lab.dir, "config.yaml"),
    JSON.stringify({ cniBinDir: dirs.bin, clusterNetwork: join(dirs.conf, primaryFile) }),
  );
  await node.nad("extra", { ...network, name: "extra", plugins: [{ type: "extra" }] });
  return { node, plugins, dirs };
}

/** Starts plexusd, which keeps the directory. In the thin flavour its socket is not the shim's. */
async function startKeeper({ node, dirs }: Site): Promise<void> {
  const flags = ["--cni-conf-dir", dirs.conf];
  if (flavour === "daemon") return node.startDaemon(...flags);
  await node.startDaemon();
  const { lab } = node;
  const daemon = await startPlexusd({
    socket: join(lab.dir, "keeper/plexus.sock"),
    stateDir: join(lab.dir, "keeper/state"),
    manifests: node.manifestsDir,
    flags: ["--config", join(lab.dir, "config.yaml"), ...flags],
    logFile: join(lab.dir, "keeper.log"),
    enter: (...command) => lab.command(...command),
  });
  onTestFinished(() => daemon.stop("SIGTERM"));
}

/** What the container runtime reads: the types after Plexus's plugin, and the omitted ones. */
async function readChain({ dirs }: Site) {
  const text = await readFile(join(dirs.conf, plexusConfName), "utf8").catch(() => "");
  const plugins = text === "" ? [] : JSON.parse(text).plugins;
  const types: string[] = plugins.map(({ type }: { type: string }) => type);
  const omitted: { type: string }[] = plugins[0]?.omittedPlugins ?? [];
  return { types, omitted: omitted.map(({ type }) => type) };
}

/** The agent reacts until it has nothing to write; then plexusd has written what follows from it. */
async function settle(site: Site, agent: MeshAgent, omitted: string[]): Promise<void> {
  await waitUntil("agent and plexusd agree", async () => {
    const hasWritten = await agent.react();
    const chain = await readChain(site);
    const wanted = { types: ["plexus", agent.type], omitted };
    return !hasWritten && JSON.stringify(chain) === JSON.stringify(wanted) ? true : undefined;
  });
}

async function cnitool(site: Site, command: string, pod: TestPod): Promise<void> {
  const { node, dirs } = site;
  const args = [await cnitoolBinary(), command, network.name, `/run/netns/${pod.netns}`];
  const env = {
    PATH: process.env.PATH ?? "",
    ...node.shimEnvironment,
    NETCONFPATH: dirs.conf,
    CNI_PATH: dirs.bin,
    CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name}`,
  };
  const { exitCode, stdout, stderr } = await node.lab.try(args, { env, extendEnv: false });
  expect(exitCode, `${stdout}${stderr}`).toBe(0);
}

/** Runs a pod's whole life. @returns what ran, in order */
async function lifeOf(site: Site): Promise<string[]> {
  const pod = await site.node.newPod({ networks: "extra" });
  await site.plugins.clear();
  for (const command of ["add", "check", "del"]) await cnitool(site, command, pod);
  return site.plugins.order();
}

const agents: [string, new (dirs: Site["dirs"]) => MeshAgent][] = [
  ["Istio", IstioAgent],
  ["Linkerd", LinkerdAgent],
];

describe.each(agents)("the agent of %s", (_, Agent) => {
  const withPlugin = (type: string): string[] => [
    ...["ADD primary/eth0", "ADD extra/net1", `ADD ${type}/eth0`],
    ...["CHECK primary/eth0", `CHECK ${type}/eth0`],
    ...[`DEL ${type}/eth0`, "DEL extra/net1", "DEL primary/eth0"],
  ];
  const without = withPlugin("mesh").filter((call) => !call.includes("mesh"));

  test.each([
    ["after Plexus", false],
    ["before Plexus", true],
  ])("installed %s: its plugin runs once for each pod, and not after its exit", async (...row) => {
    const [, isBefore] = row;
    const site = await makeSite();
    const agent = new Agent(site.dirs);
    if (isBefore) await agent.react();
    await startKeeper(site);
    await waitUntil("plexusd writes its file", async () =>
      (await readChain(site)).types.length > 0 ? true : undefined,
    );
    const isInPrimary = isBefore || agent.type === "linkerd-cni";
    await settle(site, agent, isInPrimary ? [agent.type] : []);
    expect(await lifeOf(site)).toEqual(withPlugin(agent.type));
    await agent.exit();
    await waitUntil("plexusd accepts the file without the plugin", async () =>
      (await readChain(site)).types.length === 1 ? true : undefined,
    );
    expect(await lifeOf(site)).toEqual(without);
  });
});
