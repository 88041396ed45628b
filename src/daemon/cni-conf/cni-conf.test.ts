import { mkdir, readdir, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { test as base, expect, onTestFinished } from "vitest";
import { makeNode, type Node, quick } from "#daemon/cni-conf/testing/node.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { viewOf } from "#host/host-view.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { NodeConf } from "./cni-conf.ts";
import { confCondition } from "./status.ts";

const calico = JSON.stringify({
  cniVersion: "0.3.1",
  name: "k8s-pod-network",
  plugins: [
    { type: "calico", capabilities: { bandwidth: true, dns: false } },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
});
const flannel = JSON.stringify({
  cniVersion: "1.0.0",
  name: "cbr0",
  plugins: [{ type: "flannel" }],
});
const podAnnotations = "io.kubernetes.cri.pod-annotations";

/** A node whose primary CNI is Calico. */
async function calicoNode(): Promise<Node> {
  const node = await makeNode();
  await node.put("10-calico.conflist", calico);
  return node;
}

const test = base.extend("node", () => calicoNode());

type Action = (node: Node) => Promise<unknown>;
const nothing: Action = async () => undefined;
const put =
  (name: string, text: string): Action =>
  (node) =>
    node.put(name, text);
const remove =
  (name: string): Action =>
  (node) =>
    unlink(join(node.conf, name));

function delegatesTo(node: Node, file: string): object {
  return { plugins: [expect.objectContaining({ clusterNetwork: join(node.conf, file) })] };
}

test("writes a configuration with the primary's name, version and enabled capabilities", async () => {
  const node = await calicoNode();
  const conf = await node.start();
  const clusterNetwork = join(node.conf, "10-calico.conflist");
  const capabilities = { bandwidth: true, [podAnnotations]: true, portMappings: true };
  expect(await node.own()).toEqual({
    cniVersion: "0.3.1",
    name: "k8s-pod-network",
    loadOnlyInlinedPlugins: true,
    plugins: [{ type: "plexus", writtenBy: "plexusd", clusterNetwork, capabilities }],
  });
  expect(conf.status()).toMatchObject({ state: "active", primary: "10-calico.conflist" });
  expect(conf.notReadyReason()).toBeUndefined();
});

const inline = [
  { cniVersion: "1.0.0", name: "cbr0", disableGC: true, plugins: [{ type: "flannel" }] },
  { cniVersion: "1.0.0", name: "storage", plugins: [{ type: "flannel" }] },
];

test.for<[string, Action, Partial<NodeConfSpec>, object]>([
  [
    "with configured capabilities, and without disabled ones",
    put("10-calico.conflist", calico),
    { capabilities: { ips: true, bandwidth: false, [podAnnotations]: false } },
    { plugins: [{ capabilities: { ips: true, portMappings: true } }] },
  ],
  [
    "with a newer version than that of a primary older than lists",
    put("10-old.conf", '{"cniVersion":"0.2.0","name":"old","type":"flannel"}'),
    {},
    { cniVersion: "0.3.1" },
  ],
  [
    "with the primary's switches for the runtime, and its other keys",
    put(
      "10-calico.conflist",
      JSON.stringify({
        ...{ ...JSON.parse(calico), disableGC: true, disableCheck: "true", vendor: { key: 1 } },
        ...{ loadOnlyInlinedPlugins: false, type: "x", prevResult: {} },
      }),
    ),
    {},
    { disableGC: true, disableCheck: true, vendor: { key: 1 }, loadOnlyInlinedPlugins: true },
  ],
  [
    "with the primary's versions as written, for a runtime that supports only some",
    put("10-flannel.conflist", flannel.replace("{", '{"cniVersions":["1.0.0","1.1.0"],')),
    {},
    { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"] },
  ],
  [
    "with the newest version that Plexus knows, if the primary's is a later minor version",
    put("10-flannel.conflist", flannel.replace("1.0.0", "1.2.0")),
    {},
    { cniVersion: "1.1.0" },
  ],
  [
    "without the primary's versions that Plexus lacks",
    put(
      "10-flannel.conflist",
      flannel.replace('"1.0.0"', '"1.2.0","cniVersions":["0.4.0","1.2.0","1.0.0"]'),
    ),
    {},
    { cniVersion: "1.0.0", cniVersions: ["0.4.0", "1.0.0"] },
  ],
  [
    "without a primary when the default network is configured by name",
    nothing,
    { withoutPrimary: true, capabilities: { portMappings: true } },
    {
      cniVersion: "1.0.0",
      name: "plexus",
      plugins: [{ capabilities: { [podAnnotations]: true, portMappings: true } }],
    },
  ],
  [
    "with the name and the switches of an inline default network",
    nothing,
    { withoutPrimary: true, delegates: inline },
    { name: "cbr0", cniVersion: "1.0.0", disableGC: true },
  ],
  [
    "with the primary's name in place of the name plexus",
    async (node) => {
      await node.put("10-calico.conflist", calico);
      await node.put(plexusConfName, '{"name":"plexus","plugins":[{"type":"plexus"}]}');
    },
    {},
    { name: "k8s-pod-network" },
  ],
])("writes its file %s", async ([, prepare, spec, own]) => {
  const node = await makeNode();
  await prepare(node);
  const conf = await node.start(spec);
  expect(await node.own()).toMatchObject(own);
  await eventually(() => expect(conf.status().state).toBe("active"));
});

const delegates = [
  { cniVersion: "1.0.0", name: "a", plugins: [{ type: "calico" }, { type: "tuning" }] },
];
const restoreCalico = put("10-calico.conflist", calico);

test.for<[string, Action, Action, string, ((node: Node) => Partial<NodeConfSpec>)?]>([
  [
    "there is no primary",
    remove("10-calico.conflist"),
    restoreCalico,
    "there is no configuration of a primary CNI yet",
  ],
  ["the primary is empty", put("10-calico.conflist", ""), restoreCalico, "10-calico.conflist: "],
  [
    "the readiness file is missing",
    nothing,
    (node) => writeFile(join(node.state, "ready"), ""),
    "STATE/ready does not exist yet",
    (node) => ({ readinessFile: join(node.state, "ready") }),
  ],
  [
    "the configured primary is missing",
    nothing,
    put("10-flannel.conflist", flannel),
    "10-flannel.conflist is not there",
    () => ({ primaryConf: "10-flannel.conflist" }),
  ],
  [
    "the primary's directory does not exist, below the runtime's",
    nothing,
    async (node) => {
      await mkdir(join(node.conf, "primary.d"));
      await writeFile(join(node.conf, "primary.d/10-calico.conflist"), calico);
    },
    "there is no configuration of a primary CNI yet",
    (node) => ({ primaryDir: join(node.conf, "primary.d") }),
  ],
  [
    "the state directory cannot be used",
    async (node) => {
      await rm(node.state, { recursive: true });
      await writeFile(node.state, "not a directory");
    },
    (node) => rm(node.state),
    "the state directory STATE cannot be used",
  ],
  [
    "its directory cannot be written to",
    (node) => writeFile(join(node.root, "file"), ""),
    (node) => rm(join(node.root, "file")),
    "cannot be kept",
    (node) => ({ cniConfDir: join(node.root, "file/net.d") }),
  ],
  [
    "the shim is missing",
    (node) => unlink(join(node.bin, "plexus")),
    (node) => node.install("plexus"),
    "plexus is not installed in BIN",
  ],
  [
    "a plugin of the configured delegates is missing",
    nothing,
    (node) => node.install("tuning"),
    "delegates[0] cannot be used: its plugins are not all there: tuning not found in BIN",
    () => ({ withoutPrimary: true, delegates }),
  ],
  [
    "the primary's version is one that Plexus lacks",
    (node) => node.put("10-calico.conflist", calico.replace("0.3.1", "2.0.0")),
    (node) => node.put("10-calico.conflist", calico),
    "10-calico.conflist: incompatible CNI versions",
  ],
  [
    "the only configuration is the loopback interface's",
    async (node) => {
      await rm(join(node.conf, "10-calico.conflist"));
      await node.install("loopback");
      await node.put("99-loopback.conf", '{"cniVersion":"0.2.0","name":"lo","type":"loopback"}');
    },
    (node) => node.put("10-calico.conflist", calico),
    "there is no configuration of a primary CNI yet",
  ],
])("waits and writes no file while %s [N-6.1a]", async ([, take, restore, reason, spec]) => {
  const node = await calicoNode();
  await take(node);
  const conf = await node.start(spec?.(node));
  expect([conf.status().state, await node.own()]).toEqual(["waiting", undefined]);
  const expected = reason.replace("BIN", node.bin).replace("STATE", node.state);
  expect(conf.notReadyReason()).toContain(expected);
  await restore(node);
  await eventually(() => expect(conf.status().state).toBe("active"));
  await conf.stop();
  const left = await readdir(node.state);
  expect(left.filter((name) => !["primary-conf", "ready"].includes(name))).toEqual([]);
});

test.each<[string, Action, (node: Node) => { cniConfDir?: string; stateDir?: string }]>([
  [
    "its own file",
    (node) => mkdir(join(node.conf, plexusConfName)),
    ({ conf }) => ({ cniConfDir: conf }),
  ],
  ["a file in the state directory", nothing, () => ({ stateDir: "/proc" })],
])("logs once that it cannot write %s", async (_, prepare, dirs) => {
  const node = await calicoNode();
  await prepare(node);
  const { stateDir, ...change } = { stateDir: node.state, ...dirs(node) };
  const lines: string[] = [];
  const take = (fields: object, message: string) => lines.push(`${message} ${inspect(fields)}`);
  let rounds = 0;
  const conf = await new NodeConf({
    spec: () => {
      rounds += 1;
      return { ...node.config, ...change };
    },
    stateDir,
    files: new HostConfFiles(),
    logger: { ...noLogger, info: take, warn: take, error: take },
    timings: quick,
  }).start();
  onTestFinished(() => conf.stop());
  await eventually(() => expect(rounds).toBeGreaterThan(5));
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain(".tmp");
});

test("waits for the readiness file only before it first writes its file [N-6.1a]", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  await node.put("10-calico.conflist", flannel);
  await node.start({ readinessFile: join(node.state, "ready") });
  expect(await node.own()).toMatchObject({ cniVersion: "1.0.0" });
});

test.each(["multus", "multus-shim", "plexus", "genie"])("%s is never a primary", async (type) => {
  const node = await calicoNode();
  await node.install(type);
  await node.put("01-innocent.conf", JSON.stringify({ cniVersion: "1.0.0", name: "x", type }));
  await node.start();
  expect(await node.own()).toMatchObject(delegatesTo(node, "10-calico.conflist"));
});

test("lets the directory settle before it chooses for the first time", async () => {
  const node = await makeNode();
  await node.put("10-flannel.conflist", flannel);
  const conf = await node.start({}, { settleMs: 200 });
  expect(conf.status().state).toBe("waiting");
  await node.put("05-calico.conflist", calico);
  await eventually(() => expect(conf.status().state).toBe("active"));
  expect(await node.own()).toMatchObject(delegatesTo(node, "05-calico.conflist"));
});

test("follows the primary's changes", async ({ node }) => {
  const conf = await node.start();
  await node.put("10-calico.conflist", calico.replace("0.3.1", "1.1.0"));
  await eventually(async () => expect(await node.own()).toMatchObject({ cniVersion: "1.1.0" }));
  await node.put("10-calico.conflist", calico.replace("k8s-pod-network", "renamed"));
  await eventually(async () => expect(await node.own()).toMatchObject({ name: "renamed" }));
  expect(conf.states).toEqual(["active"]);
});

test("keeps its last good file while the primary is incomplete, broken or missing, or the shim is", async () => {
  const node = await calicoNode();
  const conf = await node.start({}, { goneMs: 60_000 });
  const written = await node.own();
  for (const text of ["", '{"cniVersion"']) {
    await node.put("10-calico.conflist", text);
    await eventually(() => expect(conf.status().state).toBe("waiting"));
    expect(await node.own()).toEqual(written);
    await node.put("10-calico.conflist", calico);
    await eventually(() => expect(conf.status().state).toBe("active"));
  }
  await node.put("87-nerdctl.conflist", flannel);
  await unlink(join(node.conf, "10-calico.conflist"));
  await eventually(() => expect(conf.notReadyReason()).toContain("is not there"));
  await unlink(join(node.bin, "plexus"));
  conf.reconcileNow();
  await eventually(() => expect(conf.notReadyReason()).toContain("plexus is not installed"));
  expect(await node.own()).toEqual(written);
});

test("the Node gets an event when new pods fail because the shim was removed", async ({ node }) => {
  const conf = await node.start();
  await unlink(join(node.bin, "plexus"));
  conf.reconcileNow();
  const reason = `plexus is not installed in ${node.bin}; restart plexusd's pod, which installs it`;
  await eventually(() =>
    expect(conf.events.at(-1)).toEqual({
      reason: "PlexusConfWaiting",
      message: `${reason}; new pods on this node fail or wait until then`,
    }),
  );
});

test("names the file that it takes over as that of a renamed primary, and when", async () => {
  const node = await calicoNode();
  const conf = await node.start({}, { goneMs: 60_000 });
  expect(conf.status().next).toBeUndefined();
  const from = Date.now();
  await rename(join(node.conf, "10-calico.conflist"), join(node.conf, "20-calico.conflist"));
  await eventually(() => expect(conf.status().state).toBe("waiting"));
  const { next } = conf.status();
  expect(next?.file).toBe("20-calico.conflist");
  expect(Date.parse(next?.at ?? "") - from).toBeGreaterThan(59_000);
  expect(Date.parse(next?.at ?? "") - Date.now()).toBeLessThan(61_000);
  expect(confCondition(conf.status())).toMatchObject({
    message: "the primary CNI's configuration 10-calico.conflist is not there",
    next: expect.stringMatching(/ fail until 20-calico.conflist is taken over in [56]\d s$/),
  });
  expect(conf.events.at(-1)).toMatchObject({
    reason: "PrimaryConfMissing",
    message: expect.stringMatching(
      /10-calico.conflist is not there; restore the file, .*; new pods .* until 20-/,
    ),
  });
});

test("records one event when the primary is removed, also after a restart, and none while it was never there", async () => {
  const node = await makeNode();
  const first = await node.start();
  await node.put("10-calico.conflist", calico);
  await eventually(() => expect(first.status().state).toBe("active"));
  await unlink(join(node.conf, "10-calico.conflist"));
  await eventually(() => expect(first.status().state).toBe("waiting"));
  await unlink(join(node.bin, "plexus"));
  first.reconcileNow();
  await eventually(() => expect(first.notReadyReason()).toContain("plexus is not installed"));
  expect(first.events.map(({ reason }) => reason)).toEqual([
    "PlexusConfActive",
    "PrimaryConfMissing",
  ]);
  await first.stop();
  await node.install("plexus");
  expect((await node.start()).events).toMatchObject([
    {
      reason: "PrimaryConfMissing",
      message:
        "the primary CNI's configuration 10-calico.conflist is not there; restore the file, or check the primary CNI's agent; new pods on this node fail until then",
    },
  ]);
});

test.each([
  ["another primary when the previous one stays missing", remove("10-calico.conflist"), "20"],
  ["a better primary that appears, after a while", put("05-flannel.conflist", flannel), "05"],
])("uses %s", async (_, change, first) => {
  const node = await calicoNode();
  await node.put("20-flannel.conflist", flannel);
  const conf = await node.start();
  await change(node);
  await eventually(() => expect(conf.status().primary).toBe(`${first}-flannel.conflist`));
  expect(await node.own()).toMatchObject(delegatesTo(node, `${first}-flannel.conflist`));
});

test.each([
  ["", nothing],
  [", also when the state directory is lost", (node: Node) => rm(node.state, { recursive: true })],
])("keeps the primary from before a restart while that one is missing%s", async (_, lose) => {
  const node = await calicoNode();
  await (await node.start()).stop();
  const written = await node.own();
  await lose(node);
  await unlink(join(node.conf, "10-calico.conflist"));
  await node.put("87-nerdctl.conflist", flannel);
  const conf = await node.start({}, { goneMs: 60_000 });
  expect(conf.notReadyReason()).toContain("10-calico.conflist is not there");
  expect(await node.own()).toEqual(written);
  await node.put("10-calico.conflist", calico);
  await eventually(() => expect(conf.status()).toMatchObject({ primary: "10-calico.conflist" }));
});

test("continues with the primary in its file if it was killed before it remembered that one", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  await writeFile(join(node.state, "primary-conf"), "05-before.conflist\n");
  const conf = await node.start({}, { goneMs: 60_000 });
  expect(conf.status()).toMatchObject({ state: "active", primary: "10-calico.conflist" });
  expect(await readFile(join(node.state, "primary-conf"), "utf8")).toBe("10-calico.conflist\n");
});

test("keeps its file when it stops, and does not rewrite an unchanged one", async ({ node }) => {
  await (await node.start()).stop();
  const before = await readdir(node.conf);
  expect((await node.start()).states).toEqual(["active"]);
  expect(await readdir(node.conf)).toEqual(before);
});

const renameByCilium = (path: string) => rename(path, `${path}.cilium_bak`);

test("restores its file when it was renamed while plexusd was not running", async ({ node }) => {
  await (await node.start()).stop();
  await renameByCilium(join(node.conf, plexusConfName));
  const conf = await node.start();
  await eventually(() => expect(conf.states).toEqual(["foreign-rename", "active"]));
});

test("backs off when an agent removes its file repeatedly", async ({ node }) => {
  const restore = { initialMs: 10, maxMs: 60_000, factor: 4, jitter: 0 };
  const conf = await node.start({}, { restore });
  const own = join(node.conf, plexusConfName);
  let renames = 0;
  const removeFile = () =>
    renameByCilium(own).then(
      () => renames++,
      () => undefined,
    );
  const until = performance.now() + 700;
  while (performance.now() < until) {
    await removeFile();
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(renames).toBeGreaterThan(1);
  expect(renames).toBeLessThan(8);
  // The last thing that happened may be that plexusd has restored it.
  await eventually(async () => {
    await removeFile();
    expect(conf.status().state).toBe("foreign-rename");
  });
  expect(conf.notReadyReason()).toContain("cilium_bak");
});

test("restores an empty or torn file soon each time, also while it backs off from an agent", async () => {
  const node = await calicoNode();
  const restore = { initialMs: 10, maxMs: 60_000, factor: 10_000, jitter: 0 };
  const conf = await node.start({}, { restore });
  const own = join(node.conf, plexusConfName);
  const good = await readFile(own, "utf8");
  await unlink(own);
  await eventually(() => expect(conf.states).toEqual(["active", "missing", "active"]));
  for (const text of ["", good.slice(0, 40), "{}", '{"name":"x","plugins":[]}', ""]) {
    await writeFile(own, text);
    await eventually(async () => expect(await readFile(own, "utf8")).toBe(good));
  }
  await renameByCilium(own);
  await eventually(() => expect(conf.status().state).toBe("foreign-rename"));
  await writeFile(own, "");
  await eventually(async () => expect(await readFile(own, "utf8")).toBe(good));
});

test("bounds how often it restores a file that is emptied all the time", async ({ node }) => {
  const own = join(node.conf, plexusConfName);
  const conf = await node.start({}, { repair: { initialMs: 100, maxMs: 200, jitter: 0 } });
  const until = performance.now() + 700;
  while (performance.now() < until) {
    await writeFile(own, "");
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const restores = conf.states.filter((state) => state === "active").length - 1;
  expect(restores).toBeGreaterThan(0);
  expect(restores).toBeLessThan(6);
});

test("leaves an agent that empties the file the time to write it", async ({ node }) => {
  const conf = await node.start({}, { repair: { initialMs: 60_000, maxMs: 60_000, jitter: 0 } });
  const own = join(node.conf, plexusConfName);
  const list = JSON.parse(await readFile(own, "utf8"));
  list.plugins.push({ type: "portmap", name: "agent" });
  await writeFile(own, "");
  await eventually(() => expect(conf.status().state).toBe("missing"));
  await writeFile(own, JSON.stringify(list));
  await eventually(() => expect(conf.status()).toMatchObject({ state: "active" }));
  expect(conf.status().chained).toEqual(["portmap"]);
});

test("reports that another file shadows its file", async ({ node }) => {
  const conf = await node.start();
  await node.put("00-multus.conf", '{"cniVersion":"1.0.0","name":"m","type":"multus"}');
  await eventually(() => expect(conf.status().state).toBe("shadowed"));
  expect(conf.notReadyReason()).toContain("00-multus.conf");
  await unlink(join(node.conf, "00-multus.conf"));
  await eventually(() => expect(conf.status().state).toBe("active"));
});

test("writes its file beside Multus's, so that pods get their networks as soon as that is gone", async () => {
  const node = await calicoNode();
  await node.put("00-multus.conf", '{"cniVersion":"1.0.0","name":"m","type":"multus-shim"}');
  const conf = await node.start();
  expect(conf.status()).toMatchObject({ state: "shadowed", primary: "10-calico.conflist" });
  expect(await node.own()).toMatchObject(delegatesTo(node, "10-calico.conflist"));
});

test("removes temporary files that a crash left, and no other files", async ({ node }) => {
  await node.put(`.${plexusConfName}.0123456789ab.tmp`, '{"cniVer');
  await node.put(".someone-elses.tmp", "");
  await node.start();
  expect((await readdir(node.conf)).sort()).toEqual([
    ".someone-elses.tmp",
    plexusConfName,
    "10-calico.conflist",
  ]);
});

test("creates the runtime's directory when the primary has another one", async ({ node }) => {
  const cniConfDir = join(node.conf, "../runtime/net.d");
  const conf = await node.start({ cniConfDir });
  expect(conf.status().state).toBe("active");
  const own = JSON.parse(await readFile(join(cniConfDir, plexusConfName), "utf8"));
  expect(own).toMatchObject(delegatesTo(node, "10-calico.conflist"));
  await unlink(join(cniConfDir, plexusConfName));
  await eventually(() => expect(conf.states).toEqual(["active", "missing", "active"]));
});

test("reconcileNow() applies a changed configuration at once", async ({ node }) => {
  await node.put("20-flannel.conflist", flannel);
  const conf = await node.start();
  Object.assign(node.config, { primaryConf: "20-flannel.conflist" });
  conf.reconcileNow();
  await eventually(() => expect(conf.status().primary).toBe("20-flannel.conflist"));
});

test("a file that cannot be written is tried again by time, not because of its temporary files", async () => {
  const node = await calicoNode();
  await mkdir(join(node.conf, plexusConfName));
  const waitingPollMs = 200;
  let rounds = 0;
  const spec = {
    get withoutPrimary() {
      rounds += 1;
      return false;
    },
  };
  const conf = await node.start(spec, { waitingPollMs });
  expect(conf.notReadyReason()).toContain("the node's configuration cannot be kept: EISDIR");
  const [atStart, startedAt] = [rounds, performance.now()];
  await eventually(() => expect(rounds).toBeGreaterThanOrEqual(atStart + 3));
  expect(performance.now() - startedAt).toBeGreaterThan(2 * (waitingPollMs - 1));
});

test("warns of a plugin in a directory that plexusd cannot see", async () => {
  const node = await makeNode({ view: (root) => viewOf([root]) });
  await node.put("10-calico.conflist", calico.replace("portmap", "other"));
  expect((await node.start({ binDirs: ["/usr/libexec/cni", node.bin] })).status()).toEqual({
    state: "active",
    reason: "delegating to 10-calico.conflist",
    primary: "10-calico.conflist",
    warning:
      "plexusd cannot see whether these plugins are there: other (/usr/libexec/cni is not mounted into its container)",
  });
});

test.each<[string, Partial<NodeConfSpec>]>([
  ["/run/flannel/subnet.env", { readinessFile: "/run/flannel/subnet.env" }],
  ["/srv/net.d", { readinessFile: "/srv/net.d" }],
  ["/srv/net.d", { primaryDir: "/srv/net.d" }],
])("names %s, which is not mounted into plexusd's container: %j", async (path, spec) => {
  const node = await makeNode({ view: (root) => viewOf([root]) });
  const conf = await node.start(spec);
  expect(conf.notReadyReason()).toContain(`${path} does not exist in plexusd's container`);
});
