import { execFileSync } from "node:child_process";
import { mkdir, readFile, rename, rm, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { isSamePlugin } from "#cni/conf/same-plugin.ts";
import { CiliumAgent } from "#daemon/cni-conf/testing/cilium-agent.ts";
import { IstioAgent, LinkerdAgent, type MeshAgent } from "#daemon/cni-conf/testing/mesh-agents.ts";
import { makeNode, type Node, quick } from "#daemon/cni-conf/testing/node.ts";
import { namedPlugins } from "#engine/config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import type { JsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { writePlexusConf } from "./conf-dir.ts";
import { handBack } from "./hand-back.ts";
import { NodeConfReconciler, type NodeConfTimings } from "./reconciler.ts";
import { type NodeConfStatus, nodeConfEvent } from "./status.ts";

vi.mock("#lib/files/sync.ts", { spy: true });

const primaryFile = "10-calico.conflist";
const portmap = { type: "portmap", capabilities: { portMappings: true } };
const calico = {
  cniVersion: "0.3.1",
  name: "k8s-pod-network",
  plugins: [{ type: "calico" }, portmap],
};

const agents: [string, (node: Node) => MeshAgent][] = [
  ["Istio", (node) => new IstioAgent(node)],
  ["Linkerd", (node) => new LinkerdAgent(node)],
];

const withCilium: typeof agents = [
  ...agents,
  ["Cilium", (node) => new CiliumAgent(node)],
  ["Cilium with a target", (node) => new CiliumAgent(node, calico.name)],
];

async function calicoNode(primary: object = calico): Promise<Node> {
  const node = await makeNode();
  await node.put(primaryFile, JSON.stringify(primary));
  return node;
}

/** plexusd's part, whose rounds a test runs itself. */
async function startReconciler(
  node: Node,
  change: Partial<NodeConfTimings> = {},
  files: ConfFiles = new HostConfFiles(),
): Promise<NodeConfReconciler> {
  const timings = { calmMs: 60_000, ...quick, ...change } as NodeConfTimings;
  const { config, state: stateDir } = node;
  const options = { spec: () => config, stateDir, files, logger: noLogger, timings };
  const reconciler = new NodeConfReconciler(options);
  await reconciler.load();
  return reconciler;
}

/** The same after its first round. */
async function startedReconciler(...[node, change]: Parameters<typeof startReconciler>) {
  const reconciler = await startReconciler(node, change);
  await reconciler.reconcile();
  return reconciler;
}

const own = (node: Node, file = plexusConfName): Promise<string> =>
  readFile(join(node.conf, file), "utf8");

/** Lets agent and plexusd react to each other's writes. @returns the status when neither writes */
async function settle(
  node: Node,
  agent: MeshAgent,
  reconciler: NodeConfReconciler,
): Promise<NodeConfStatus> {
  for (let rounds = 0; rounds < 6; rounds++) {
    const before = await own(node).catch(() => "");
    const { status } = await reconciler.reconcile();
    const isWritten = before !== (await own(node));
    if (!(await agent.react()) && !isWritten) return status;
  }
  throw new Error("agent and plexusd write in turn without a limit");
}

/** A node where plexusd and this agent run. */
async function meshedNode<T extends MeshAgent>(makeAgent: (node: Node) => T) {
  const node = await calicoNode();
  const agent = makeAgent(node);
  const reconciler = await startedReconciler(node);
  return { node, agent, reconciler, status: await settle(node, agent, reconciler) };
}

/** The types of the plugins that run for a pod, in this order, when the runtime uses the file. */
async function runsOf(node: Node, file = plexusConfName): Promise<string[]> {
  const [plexus, ...chained] = JSON.parse(await own(node, file)).plugins;
  const primary = JSON.parse(await readFile(plexus.clusterNetwork, "utf8"));
  const isOmitted = (plugin: JsonObject): boolean =>
    namedPlugins(plexus.omittedPlugins).some((each) => isSamePlugin(each, plugin));
  const rest = primary.plugins.filter((plugin: JsonObject) => !isOmitted(plugin));
  return [...rest, ...chained].map(({ type }) => type);
}

const meshed = (type: string): string[] => ["calico", "portmap", type];

test.each(withCilium)(
  "%s: an appended plugin stays, runs once, and goes with its agent",
  async (...row) => {
    const { node, agent, reconciler, status } = await meshedNode(row[1]);
    expect(await runsOf(node)).toEqual(["calico", "portmap", agent.type]);
    expect(status).toMatchObject({ state: "active", chained: [agent.type] });
    expect(status.chainProblem).toBeUndefined();
    await agent.exit();
    const { status: after } = await reconciler.reconcile();
    expect(await runsOf(node)).toEqual(["calico", "portmap"]);
    expect(after).toEqual(expect.objectContaining({ state: "active" }));
    expect(after.chained).toBeUndefined();
    expect(await own(node)).not.toContain(`"type": "${agent.type}"`);
  },
);

test.each(agents)("%s: a plugin from before Plexus runs once, and is moved", async (...row) => {
  const node = await calicoNode();
  const agent = row[1](node);
  await agent.react();
  const reconciler = await startReconciler(node);
  expect((await reconciler.reconcile()).status.state).toBe("active");
  expect(await runsOf(node)).toEqual(["calico", "portmap", agent.type]);
  const status = await settle(node, agent, reconciler);
  expect(await runsOf(node)).toEqual(["calico", "portmap", agent.type]);
  expect(status).toMatchObject({ chained: [agent.type], omitted: [agent.type] });
  await agent.exit();
  // Istio's agent leaves its plugin in the primary's file, without its executable.
  const isLeft = agent.type === "istio-cni";
  expect((await own(node, primaryFile)).includes(agent.type)).toBe(isLeft);
  const { status: after } = await reconciler.reconcile();
  expect(after).toMatchObject({ state: "active", reason: `delegating to ${primaryFile}` });
  expect(await runsOf(node)).toEqual(["calico", "portmap"]);
  await node.put(primaryFile, JSON.stringify(calico));
  expect((await reconciler.reconcile()).status.omitted).toBeUndefined();
  expect(await own(node)).not.toContain(agent.type);
});

test.each(withCilium)("%s: an appended plugin survives restarts and changes", async (...row) => {
  const node = await calicoNode();
  const agent = row[1](node);
  await agent.react();
  await settle(node, agent, await startReconciler(node));
  const reconciler = await startReconciler(node);
  const plugins = [{ type: "calico", capabilities: { bandwidth: true } }];
  await node.put(primaryFile, JSON.stringify({ ...calico, disableGC: true, plugins }));
  await settle(node, agent, reconciler);
  expect(await runsOf(node)).toEqual(["calico", agent.type]);
  expect(JSON.parse(await own(node))).toMatchObject({
    disableGC: true,
    plugins: [{ capabilities: { bandwidth: true } }, { type: agent.type }],
  });
});

test.each(agents)("%s: the plugin is left out of a configured default network", async (...row) => {
  const node = await calicoNode();
  Object.assign(node.config, { withoutPrimary: true });
  const agent = row[1](node);
  const reconciler = await startedReconciler(node);
  await settle(node, agent, reconciler);
  const [plexus, chained] = JSON.parse(await own(node)).plugins;
  const omission = { type: agent.type, name: agent.type };
  expect([plexus.omittedPlugins, chained.type]).toEqual([[omission], agent.type]);
  await agent.exit();
  await reconciler.reconcile();
  expect(await own(node)).not.toContain(agent.type);
});

test("a primary's file that an agent makes a list is the same network under its new name", async () => {
  const node = await makeNode();
  await node.install("bridge");
  await node.put(
    "10-bridge.conf",
    JSON.stringify({ cniVersion: "0.3.1", name: "b", type: "bridge" }),
  );
  const agent = new LinkerdAgent(node);
  const reconciler = await startedReconciler(node, { goneMs: 60_000 });
  await settle(node, agent, reconciler);
  const { status } = await reconciler.reconcile();
  expect(status).toMatchObject({ state: "active", primary: "10-bridge.conflist" });
  expect(await runsOf(node)).toEqual(["bridge", agent.type]);
});

const rewrite =
  (change: (list: { plugins: object[] }) => object) =>
  async (path: string): Promise<void> =>
    writeFile(path, JSON.stringify(change(JSON.parse(await readFile(path, "utf8")))));

/** Appends the plugin to Plexus's file, as an agent does. */
const append = (node: Node, plugin: object) =>
  rewrite((list) => ({ ...list, plugins: [...list.plugins, plugin] }))(
    join(node.conf, plexusConfName),
  );
/** Leaves only Plexus in Plexus's file. */
const removeAppended = (node: Node) =>
  rewrite((list) => ({ ...list, plugins: list.plugins.slice(0, 1) }))(
    join(node.conf, plexusConfName),
  );

const edits: [string, (path: string) => Promise<unknown>, isReadable?: true][] = [
  ["renamed", (path) => rename(path, `${path}.cilium_bak`)],
  ["removed", unlink],
  ["emptied", (path) => writeFile(path, "")],
  ["replaced", (path) => writeFile(path, '{"name":"x","plugins":[{"type":"flannel"}]}')],
  ["truncated", async (path) => writeFile(path, (await readFile(path, "utf8")).slice(0, -9))],
  [
    "given another plugin first",
    rewrite((list) => ({ ...list, plugins: [{ type: "x" }, ...list.plugins] })),
  ],
  ["given a plugin without type", rewrite((list) => ({ ...list, plugins: [...list.plugins, {}] }))],
  [
    "given Plexus twice",
    rewrite((list) => ({ ...list, plugins: [...list.plugins, ...list.plugins] })),
  ],
  ["given another name", rewrite((list) => ({ ...list, name: "other" })), true],
  [
    "given another default network",
    rewrite(({ plugins: [plexus, mesh], ...list }) => ({
      ...list,
      plugins: [{ ...plexus, clusterNetwork: "/x" }, mesh],
    })),
    true,
  ],
];

test.each(edits)("a %s file gets back what present agents run", async (_, edit, isReadable) => {
  for (const isGone of [false, true]) {
    const { node, agent, reconciler } = await meshedNode((node) => new IstioAgent(node));
    const before = JSON.parse(await own(node));
    await edit(join(node.conf, plexusConfName));
    if (isGone) await unlink(join(node.bin, agent.type));
    expect((await reconciler.reconcile()).status.state).not.toBe("active");
    await eventually(async () =>
      expect((await reconciler.reconcile()).status.state).toBe("active"),
    );
    const { plugins, ...list } = JSON.parse(await own(node));
    expect(list).toEqual((({ plugins: _plugins, ...others }) => others)(before));
    expect(plugins).toEqual(!isGone || isReadable ? before.plugins : before.plugins.slice(0, 1));
  }
});

test("a pipe in the directory, which no process writes to, does not hang plexusd", async () => {
  const node = await calicoNode();
  execFileSync("mkfifo", [join(node.conf, "50-pipe.conf")]);
  await startedReconciler(node);
  expect(await runsOf(node)).toEqual(["calico", "portmap"]);
});

test("a temporary file that cannot be removed does not keep plexusd from starting", async () => {
  const node = await calicoNode();
  const name = ".00-plexus.conflist.72931a7b0000.tmp";
  // rm() fails for a directory.
  await mkdir(join(node.conf, name));
  const files = new HostConfFiles();
  const list = files.list.bind(files);
  vi.spyOn(files, "list").mockImplementation(async (dir) => [...(await list(dir)), name]);
  expect((await (await startReconciler(node, {}, files)).reconcile()).status.state).toBe("active");
});

test("what a write that failed has left in the directory is plexusd's own", async () => {
  const node = await calicoNode();
  const agent = new IstioAgent(node);
  await agent.react();
  const reconciler = await startedReconciler(node);
  await agent.react();
  vi.mocked(syncDirectory).mockRejectedValueOnce(new Error("no space"));
  await expect(reconciler.reconcile()).rejects.toThrow("no space");
  expect(await own(node)).toContain("omittedPlugins");
  await agent.exit();
  expect((await reconciler.reconcile()).status.state).toBe("active");
  expect(await runsOf(node)).toEqual(["calico", "portmap"]);
});

test("what an agent writes between plexusd's reading and its rename is not lost", async () => {
  const node = await calicoNode();
  const reconciler = await startedReconciler(node);
  const inPlaceOf = await own(node);
  const agent = new IstioAgent(node);
  await agent.react();
  const files = new HostConfFiles();
  expect(await writePlexusConf(node.conf, "{}", { inPlaceOf, files })).toBe(false);
  await settle(node, agent, reconciler);
  expect(await runsOf(node)).toEqual(["calico", "portmap", agent.type]);
});

test("plugins of one type with other settings both run; equal ones run once", async () => {
  const first = { type: "tuning", sysctl: { "net.core.somaxconn": "500" } };
  const second = { type: "tuning", sysctl: { "net.ipv4.tcp_fin_timeout": "30" } };
  const node = await calicoNode({ ...calico, plugins: [{ type: "calico" }, first] });
  await node.install("tuning");
  const reconciler = await startedReconciler(node);
  await append(node, second);
  await reconciler.reconcile();
  expect(await runsOf(node)).toEqual(["calico", "tuning", "tuning"]);
  await removeAppended(node);
  await append(node, first);
  await reconciler.reconcile();
  expect(await runsOf(node)).toEqual(["calico", "tuning"]);
});

test("a plugin without a name that is no longer appended is a part of the default network again", async () => {
  const node = await calicoNode();
  await node.install("portmap");
  const reconciler = await startedReconciler(node);
  await append(node, portmap);
  await reconciler.reconcile();
  expect(JSON.parse(await own(node)).plugins[0]).toMatchObject({ omittedPlugins: [portmap] });
  await removeAppended(node);
  await reconciler.reconcile();
  const [plexus] = JSON.parse(await own(node)).plugins;
  expect(plexus).toMatchObject({ capabilities: { portMappings: true } });
  expect(plexus).not.toHaveProperty("omittedPlugins");
});

test("an agent's plugin that both files have leaves the primary's plugin of the same type alone", async () => {
  const tuning = { type: "tuning", sysctl: { "net.core.somaxconn": "500" } };
  const appended = { type: "tuning", name: "mesh", sysctl: { "net.ipv4.ip_forward": "1" } };
  const node = await calicoNode({ ...calico, plugins: [{ type: "calico" }, tuning, appended] });
  await node.install("tuning");
  const reconciler = await startedReconciler(node);
  await append(node, appended);
  await reconciler.reconcile();
  expect(await runsOf(node)).toEqual(["calico", "tuning", "tuning"]);
  const [plexus] = JSON.parse(await own(node)).plugins;
  expect(plexus.omittedPlugins).toEqual([{ type: "tuning", name: "mesh" }]);
});

test("a plugin that its agent removed, but whose executable stays, is soon a part of the default network again", async () => {
  const mesh = { type: "mesh", name: "mesh" };
  const node = await calicoNode({ ...calico, plugins: [{ type: "calico" }, mesh] });
  await node.install("mesh");
  const reconciler = await startedReconciler(node, { goneMs: 100 });
  await append(node, mesh);
  await reconciler.reconcile();
  await removeAppended(node);
  await reconciler.reconcile();
  expect(await runsOf(node)).toEqual(["calico"]);
  await eventually(async () => {
    await reconciler.reconcile();
    expect(await runsOf(node)).toEqual(["calico", "mesh"]);
  });
});

test.each(agents)("%s: a plugin that was appended twice runs once", async (...row) => {
  const { node, agent, reconciler } = await meshedNode(row[1]);
  const twice = rewrite((list) => ({
    ...list,
    plugins: [...list.plugins, ...list.plugins.slice(1)],
  }));
  await twice(join(node.conf, plexusConfName));
  await settle(node, agent, reconciler);
  expect(await runsOf(node)).toEqual(["calico", "portmap", agent.type]);
});

test("an appended plugin stays in a file that is longer than one network may be", async () => {
  const node = await calicoNode({ ...calico, vendor: "x".repeat(100_000) });
  await node.install("tuning");
  const reconciler = await startedReconciler(node);
  const tuning = { type: "tuning", vendor: "x".repeat(100_000) };
  await append(node, tuning);
  const { status } = await reconciler.reconcile();
  expect(status).toMatchObject({ state: "active", chained: ["tuning"] });
  expect(await runsOf(node)).toEqual(["calico", "portmap", "tuning"]);
});

test("a plugin that is not installed is a problem: pods fail until its agent installs it", async () => {
  const { node, agent, reconciler } = await meshedNode((node) => new LinkerdAgent(node));
  await unlink(join(node.bin, agent.type));
  const { status } = await reconciler.reconcile();
  expect(status).toMatchObject({
    state: "active",
    chained: ["linkerd-cni"],
    chainProblem:
      "linkerd-cni: not installed, so new pods fail, or with CRI-O start without Plexus",
  });
  const event = {
    reason: "NextPluginMissing",
    message: expect.stringMatching(
      /^linkerd-cni: not installed, .* CRI-O start without Plexus; start the agent/,
    ),
  };
  expect(nodeConfEvent(status, { state: "waiting", reason: "" })).toEqual(event);
  expect(nodeConfEvent(status, { ...status, missing: [], chainProblem: "" })).toEqual(event);
  expect(nodeConfEvent(status, status)).toBeUndefined();
});

test.each(["00-istio-cni.conflist", "02-istio-cni.conflist"])(
  "Istio's own file %s, a copy of Plexus's with its plugin: it runs once",
  async (file) => {
    const node = await calicoNode();
    await node.install("istio-cni");
    const reconciler = await startedReconciler(node);
    const istio = { type: "istio-cni", name: "istio-cni" };
    const list = JSON.parse(await own(node));
    await node.put(file, JSON.stringify({ ...list, plugins: [...list.plugins, istio] }));
    const { status } = await reconciler.reconcile();
    expect(status).toMatchObject({ state: "active", primary: primaryFile, chained: ["istio-cni"] });
    expect(status.chainProblem).toBeUndefined();
    const isFirst = file < plexusConfName;
    expect(await runsOf(node, isFirst ? file : plexusConfName)).toEqual(meshed("istio-cni"));
    await node.put(file, JSON.stringify({ ...list, plugins: [{ type: "plexus" }, istio] }));
    const { status: outdated } = await reconciler.reconcile();
    expect(outdated.state).toBe(isFirst ? "shadowed" : "active");
  },
);

test("Cilium's file from before Plexus: its plugin runs once, behind the next file", async () => {
  const node = await calicoNode();
  const agent = new CiliumAgent(node);
  await agent.react();
  const reconciler = await startedReconciler(node, { goneMs: 60_000 });
  expect(await runsOf(node)).toEqual(meshed(agent.type));
  const status = await settle(node, agent, reconciler);
  expect(await runsOf(node)).toEqual(meshed(agent.type));
  expect(status).toMatchObject({ state: "active", primary: primaryFile, chained: [agent.type] });
  agent.settings = { "enable-debug": true };
  await settle(node, agent, reconciler);
  expect(JSON.parse(await own(node)).plugins.slice(1)).toEqual([
    { type: agent.type, "enable-debug": true },
  ]);
});

test("Cilium's plugin goes with its file, also while plexusd does not run", async () => {
  const { node, agent } = await meshedNode((node) => new CiliumAgent(node));
  await agent.exit();
  await (await startReconciler(node)).reconcile();
  expect(await runsOf(node)).toEqual(["calico", "portmap"]);
  expect(await own(node)).not.toContain(agent.type);
});

test("Cilium's plugin stays when Plexus's file was removed, and is back in a chain of two when the node is", async () => {
  const { node, agent, reconciler } = await meshedNode((node) => new CiliumAgent(node));
  await unlink(join(node.conf, plexusConfName));
  await agent.react();
  await eventually(async () => expect((await reconciler.reconcile()).status.state).toBe("active"));
  expect(await runsOf(node)).toEqual(meshed(agent.type));
  await settle(node, agent, reconciler);
  const paths = { cniConfDir: node.conf, primaryDir: node.conf, stateDir: node.state };
  await handBack(paths, { primary: undefined, files: new HostConfFiles() });
  await agent.react();
  const { plugins } = JSON.parse(await own(node, "05-cilium.conflist"));
  expect(plugins.map(({ type }: JsonObject) => type)).toEqual(meshed(agent.type));
});

test.each(agents)("%s and Cilium: both plugins run once, and each goes alone", async (...row) => {
  const node = await calicoNode();
  const [cilium, mesh] = [new CiliumAgent(node), row[1](node)];
  const react = async (): Promise<boolean> => {
    const has = [await mesh.react(), await cilium.react()];
    return has.includes(true);
  };
  const both = { type: "", react, exit: () => mesh.exit() };
  await react();
  const reconciler = await startedReconciler(node);
  await settle(node, both, reconciler);
  expect((await runsOf(node)).toSorted()).toEqual(
    ["calico", cilium.type, mesh.type, "portmap"].toSorted(),
  );
  await both.exit();
  await settle(node, cilium, reconciler);
  expect(await runsOf(node)).toEqual(meshed(cilium.type));
});

test("a copy's plugin that is not installed is a problem, and another runtime's list is no copy", async () => {
  const node = await calicoNode();
  await node.install("firewall");
  const reconciler = await startedReconciler(node);
  const list = JSON.parse(await own(node));
  const firewall = { ...list, name: "nerdctl", plugins: [...list.plugins, { type: "firewall" }] };
  await node.put("87-nerdctl.conflist", JSON.stringify(firewall));
  const absent = { ...list, plugins: [...list.plugins, { type: "absent" }] };
  await node.put("05-other.conflist", JSON.stringify(absent));
  const { status } = await reconciler.reconcile();
  expect(status.chained).toBeUndefined();
  expect(status.chainProblem).toBe(
    "absent: not installed, so new pods start without what 05-other.conflist asks for",
  );
  expect(await runsOf(node)).toEqual(["calico", "portmap"]);
});

test.each(agents)("%s: no plugin returns whose agent leaves during a write", async (...row) => {
  const node = await calicoNode();
  const agent = row[1](node);
  const files = new HostConfFiles();
  const reconciler = await startReconciler(node, {}, files);
  await reconciler.reconcile();
  await settle(node, agent, reconciler);
  expect(await runsOf(node)).toContain(agent.type);
  await node.put(primaryFile, JSON.stringify({ ...calico, disableCheck: true }));
  const read = files.read.bind(files);
  let reads = 0;
  vi.spyOn(files, "read").mockImplementation(async (path) => {
    // First it is one of all files; then plexusd has read the directory, and is about to write.
    const isAhead = path.endsWith(primaryFile) && ++reads === 2;
    if (isAhead) await rm(join(node.bin, agent.type), { force: true });
    return read(path);
  });
  await reconciler.reconcile();
  expect(JSON.parse(await own(node))).toMatchObject({ disableCheck: true });
  expect(await runsOf(node)).not.toContain(agent.type);
});

test("the digits of the primary's integers are kept, and are no reason to write the file again", async () => {
  const node = await calicoNode();
  const text = JSON.stringify(calico).replace("{", '{"vendor":9007199254740993,');
  await node.put(primaryFile, text);
  const reconciler = await startedReconciler(node);
  expect(await own(node)).toContain('"vendor": 9007199254740993');
  const written = await stat(join(node.conf, plexusConfName));
  for (let round = 0; round < 2; round++) {
    expect(await reconciler.reconcile()).toMatchObject({ status: { state: "active" } });
  }
  expect((await stat(join(node.conf, plexusConfName))).ino).toBe(written.ino);
});
