import { chmod, mkdir, readdir, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { makeNode, type Node, quick, silent } from "#daemon/cni-conf/testing/node.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { viewOf } from "#host/host-view.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { startNodeConf } from "./cni-conf.ts";

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

/** A node whose primary CNI is Calico. */
async function calicoNode(): Promise<Node> {
  const node = await makeNode();
  await node.put("10-calico.conflist", calico);
  return node;
}

function delegatesTo(node: Node, file: string): object {
  return { plugins: [expect.objectContaining({ clusterNetwork: join(node.conf, file) })] };
}

test("writes a configuration of the primary's name and version with the union of its capabilities", async () => {
  const node = await calicoNode();
  const conf = await node.start();
  expect(await node.own()).toEqual({
    cniVersion: "0.3.1",
    name: "k8s-pod-network",
    plugins: [
      {
        type: "plexus",
        clusterNetwork: join(node.conf, "10-calico.conflist"),
        capabilities: {
          bandwidth: true,
          "io.kubernetes.cri.pod-annotations": true,
          portMappings: true,
        },
      },
    ],
  });
  expect(conf.status()).toMatchObject({ state: "active", primary: "10-calico.conflist" });
  expect(conf.notReadyReason()).toBeUndefined();
});

test("adds and removes configured capabilities, including that of the pod's annotations", async () => {
  const node = await calicoNode();
  const annotations = "io.kubernetes.cri.pod-annotations";
  await node.start({ capabilities: { ips: true, bandwidth: false, [annotations]: false } });
  expect(await node.own()).toEqual({
    cniVersion: "0.3.1",
    name: "k8s-pod-network",
    plugins: [expect.objectContaining({ capabilities: { ips: true, portMappings: true } })],
  });
});

test("raises a version older than lists", async () => {
  const node = await makeNode();
  await node.put("10-old.conf", '{"cniVersion":"0.2.0","name":"old","type":"flannel"}');
  await node.start();
  expect(await node.own()).toMatchObject({ cniVersion: "0.3.1" });
});

test("waits for a primary that does not exist yet [N-6.1a]", async () => {
  const node = await makeNode();
  const conf = await node.start();
  expect([conf.status().state, await node.own()]).toEqual(["waiting", undefined]);
  expect(conf.notReadyReason()).toBe("there is no configuration of a primary CNI yet");
  await node.put("10-flannel.conflist", flannel);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
});

test.each([
  ["an empty file", ""],
  ["half of a file", calico.slice(0, 40)],
  ["a file without plugins", '{"cniVersion":"1.0.0","name":"x","plugins":[]}'],
])("waits while the primary is %s", async (_name, text) => {
  const node = await makeNode();
  await node.put("10-calico.conflist", text);
  const conf = await node.start();
  expect([conf.status().state, await node.own()]).toEqual(["waiting", undefined]);
  expect(conf.notReadyReason()).toContain("10-calico.conflist");
  await node.put("10-calico.conflist", calico);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
});

test("waits until the primary's plugins are installed and executable", async () => {
  const node = await calicoNode();
  await unlink(join(node.bin, "portmap"));
  const conf = await node.start();
  expect(conf.notReadyReason()).toContain(`portmap not found in ${node.bin}`);
  await writeFile(join(node.bin, "portmap"), "", { mode: 0o644 });
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(conf.status().state).toBe("waiting");
  await chmod(join(node.bin, "portmap"), 0o755);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
});

test("waits for the readiness file, but only before the first writing [N-6.1a]", async () => {
  const node = await calicoNode();
  const readinessFile = join(node.state, "ready");
  const conf = await node.start({ readinessFile });
  expect(conf.notReadyReason()).toContain(`${readinessFile} does not exist yet`);
  await writeFile(readinessFile, "");
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
  await unlink(readinessFile);
  await node.put("10-calico.conflist", flannel);
  await vi.waitFor(async () => expect(await node.own()).toMatchObject({ cniVersion: "1.0.0" }));
});

test.each(["multus", "multus-shim", "plexus", "genie"])(
  "never uses a configuration of type %s as primary, whatever its name",
  async (type) => {
    const node = await makeNode();
    await node.install(type);
    await node.put("01-innocent.conf", JSON.stringify({ cniVersion: "1.0.0", name: "x", type }));
    await node.put("10-calico.conflist", calico);
    await node.start();
    expect(await node.own()).toMatchObject(delegatesTo(node, "10-calico.conflist"));
  },
);

test("lets the directory settle before it chooses for the first time", async () => {
  const node = await makeNode();
  await node.put("10-flannel.conflist", flannel);
  const conf = await node.start({ settleMs: 200 });
  expect(conf.status().state).toBe("waiting");
  await node.put("05-calico.conflist", calico);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
  expect(await node.own()).toMatchObject(delegatesTo(node, "05-calico.conflist"));
});

test("uses the configured file at once, and waits for it", async () => {
  const node = await makeNode();
  await node.put("05-calico.conflist", calico);
  const options = { primaryConf: "10-flannel.conflist", settleMs: 60_000 };
  const conf = await node.start(options);
  expect(conf.notReadyReason()).toContain("10-flannel.conflist is not there");
  await node.put("10-flannel.conflist", flannel);
  await vi.waitFor(() => expect(conf.status().primary).toBe("10-flannel.conflist"));
});

test("follows the primary's changes", async () => {
  const node = await calicoNode();
  const conf = await node.start();
  await node.put("10-calico.conflist", calico.replace("0.3.1", "1.1.0"));
  await vi.waitFor(async () => expect(await node.own()).toMatchObject({ cniVersion: "1.1.0" }));
  await node.put("10-calico.conflist", calico.replace("k8s-pod-network", "renamed"));
  await vi.waitFor(async () => expect(await node.own()).toMatchObject({ name: "renamed" }));
  expect(conf.states).toEqual(["active"]);
});

test("keeps its last good file while the primary is incomplete, broken or missing", async () => {
  const node = await calicoNode();
  const conf = await node.start({}, { goneMs: 60_000 });
  const written = await node.own();
  for (const text of ["", '{"cniVersion"']) {
    await node.put("10-calico.conflist", text);
    await vi.waitFor(() => expect(conf.status().state).toBe("waiting"));
    expect(await node.own()).toEqual(written);
    await node.put("10-calico.conflist", calico);
    await vi.waitFor(() => expect(conf.status().state).toBe("active"));
  }
  await node.put("87-podman.conflist", flannel);
  await unlink(join(node.conf, "10-calico.conflist"));
  await vi.waitFor(() => expect(conf.notReadyReason()).toContain("is not there"));
  expect(await node.own()).toEqual(written);
});

test("uses another primary when the previous one stays missing", async () => {
  const node = await calicoNode();
  await node.put("20-flannel.conflist", flannel);
  const conf = await node.start();
  await unlink(join(node.conf, "10-calico.conflist"));
  await vi.waitFor(() => expect(conf.status().primary).toBe("20-flannel.conflist"));
  expect(await node.own()).toMatchObject(delegatesTo(node, "20-flannel.conflist"));
});

test("uses a better primary that appears, once the directory has settled", async () => {
  const node = await makeNode();
  await node.put("10-flannel.conflist", flannel);
  const conf = await node.start();
  await node.put("05-calico.conflist", calico);
  await vi.waitFor(() => expect(conf.status().primary).toBe("05-calico.conflist"));
  expect(await node.own()).toMatchObject(delegatesTo(node, "05-calico.conflist"));
});

test("keeps the primary from before a restart while that one is missing", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  const written = await node.own();
  await rename(join(node.conf, "10-calico.conflist"), join(node.conf, "10-calico.conflist.tmp"));
  await node.put("87-podman.conflist", flannel);
  const conf = await node.start({}, { goneMs: 60_000 });
  expect([conf.status().state, await node.own()]).toEqual(["waiting", written]);
  await node.put("10-calico.conflist", calico);
  await vi.waitFor(() => expect(conf.status()).toMatchObject({ primary: "10-calico.conflist" }));
});

test("reads the primary from its file when the state directory is lost", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  await rm(node.state, { recursive: true });
  await unlink(join(node.conf, "10-calico.conflist"));
  await node.put("87-podman.conflist", flannel);
  const conf = await node.start({}, { goneMs: 60_000 });
  expect(conf.notReadyReason()).toContain("10-calico.conflist is not there");
});

test("keeps its file when it stops, and does not rewrite an unchanged one", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  const before = await readdir(node.conf);
  const conf = await node.start();
  expect(conf.states).toEqual(["active"]);
  expect(await readdir(node.conf)).toEqual(before);
});

test("restores its file when Cilium renames it, with a status", async () => {
  const node = await calicoNode();
  const conf = await node.start();
  await rename(join(node.conf, plexusConfName), join(node.conf, `${plexusConfName}.cilium_bak`));
  await vi.waitFor(() => expect(conf.states).toEqual(["active", "foreign-rename", "active"]));
  expect(await node.own()).toMatchObject(delegatesTo(node, "10-calico.conflist"));
});

test("restores its file when it was renamed while plexusd was not running", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  await rename(join(node.conf, plexusConfName), join(node.conf, `${plexusConfName}.cilium_bak`));
  const conf = await node.start();
  await vi.waitFor(() => expect(conf.states).toEqual(["foreign-rename", "active"]));
});

test.each([
  ["removed", (path: string) => unlink(path)],
  ["emptied", (path: string) => writeFile(path, "")],
  ["changed", (path: string) => writeFile(path, flannel)],
])("restores its file when it is %s", async (_name, disturb) => {
  const node = await calicoNode();
  const conf = await node.start();
  await disturb(join(node.conf, plexusConfName));
  await vi.waitFor(() => expect(conf.states).toEqual(["active", "missing", "active"]));
  expect(await node.own()).toMatchObject(delegatesTo(node, "10-calico.conflist"));
});

test("backs off when an agent removes its file repeatedly", async () => {
  const node = await calicoNode();
  const restore = { initialMs: 10, maxMs: 60_000, factor: 4, jitter: 0 };
  const conf = await node.start({}, { restore });
  const own = join(node.conf, plexusConfName);
  let renames = 0;
  const until = performance.now() + 700;
  while (performance.now() < until) {
    await rename(own, `${own}.cilium_bak`).then(
      () => renames++,
      () => undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(renames).toBeGreaterThan(1);
  expect(renames).toBeLessThan(8);
  expect(conf.status().state).toBe("foreign-rename");
  expect(conf.notReadyReason()).toContain("cilium_bak");
});

test("reports that another file shadows its file", async () => {
  const node = await calicoNode();
  const conf = await node.start();
  await node.put("00-multus.conf", '{"cniVersion":"1.0.0","name":"m","type":"multus"}');
  await vi.waitFor(() => expect(conf.status().state).toBe("shadowed"));
  expect(conf.notReadyReason()).toContain("00-multus.conf");
  await unlink(join(node.conf, "00-multus.conf"));
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
});

test("removes temporary files that a crash left, and no other files", async () => {
  const node = await calicoNode();
  await node.put(`.${plexusConfName}.0123456789ab.tmp`, '{"cniVer');
  await node.put(".someone-elses.tmp", "");
  await node.start();
  expect((await readdir(node.conf)).sort()).toEqual([
    ".someone-elses.tmp",
    plexusConfName,
    "10-calico.conflist",
  ]);
});

test("creates the runtime's directory when the primary has another one", async () => {
  const node = await makeNode();
  const cniConfDir = join(node.conf, "../runtime/net.d");
  await node.put("10-calico.conflist", calico);
  const conf = await node.start({ cniConfDir });
  expect(conf.status().state).toBe("active");
  const own = JSON.parse(await readFile(join(cniConfDir, plexusConfName), "utf8"));
  expect(own).toMatchObject(delegatesTo(node, "10-calico.conflist"));
  await unlink(join(cniConfDir, plexusConfName));
  await vi.waitFor(() => expect(conf.states).toEqual(["active", "missing", "active"]));
});

test("waits for a primary in a subdirectory of the runtime's, which may not exist yet", async () => {
  const node = await makeNode();
  const primaryDir = join(node.conf, "primary.d");
  const conf = await node.start({ primaryDir });
  expect([conf.status().state, await node.own()]).toEqual(["waiting", undefined]);
  await mkdir(primaryDir);
  await writeFile(join(primaryDir, "10-calico.conflist"), calico);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
  const clusterNetwork = join(primaryDir, "10-calico.conflist");
  expect(await node.own()).toMatchObject({ plugins: [{ clusterNetwork }] });
});

test("writes at once without a primary when the default network is configured by name", async () => {
  const node = await makeNode();
  const conf = await node.start({ withoutPrimary: true, capabilities: { portMappings: true } });
  expect(conf.status().state).toBe("active");
  expect(await node.own()).toEqual({
    cniVersion: "1.0.0",
    name: "plexus",
    plugins: [
      {
        type: "plexus",
        capabilities: { "io.kubernetes.cri.pod-annotations": true, portMappings: true },
      },
    ],
  });
});

test("gives its file the primary's name when its name was plexus before", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  await node.put(plexusConfName, JSON.stringify({ ...(await node.own()), name: "plexus" }));
  const conf = await node.start();
  expect(await node.own()).toMatchObject({ name: "k8s-pod-network" });
  expect(conf.states).toEqual(["active"]);
});

test("uses the name of an inline default network", async () => {
  const node = await makeNode();
  const delegates = [
    { cniVersion: "1.0.0", name: "cbr0", plugins: [{ type: "flannel" }] },
    { cniVersion: "1.0.0", name: "storage", plugins: [{ type: "flannel" }] },
  ];
  await node.start({ withoutPrimary: true, delegates });
  expect(await node.own()).toMatchObject({ name: "cbr0", cniVersion: "1.0.0" });
});

test("reconcileNow() applies a changed configuration at once", async () => {
  const node = await makeNode();
  await node.put("05-calico.conflist", calico);
  await node.put("10-flannel.conflist", flannel);
  const change: Partial<NodeConfSpec> = {};
  const conf = await startNodeConf({
    spec: () => ({ ...node.config, ...change }),
    stateDir: node.state,
    files: new HostConfFiles(),
    logger: silent,
    timings: quick,
  });
  Object.assign(change, { primaryConf: "10-flannel.conflist" });
  conf.reconcileNow();
  await vi.waitFor(() => expect(conf.status().primary).toBe("10-flannel.conflist"));
  await conf.stop();
});

test("a directory that cannot be written to is a state, and is retried", async () => {
  const node = await calicoNode();
  const cniConfDir = join(node.state, "file/net.d");
  await writeFile(join(node.state, "file"), "");
  const conf = await node.start({ cniConfDir });
  expect(conf.notReadyReason()).toContain("cannot be kept");
  await unlink(join(node.state, "file"));
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
});

const delegates = [
  { cniVersion: "1.0.0", name: "a", plugins: [{ type: "calico" }, { type: "tuning" }] },
];

test.each<{
  what: string;
  spec?: Partial<NodeConfSpec>;
  take: (node: Node) => Promise<void>;
  restore: (node: Node) => Promise<void>;
  reason: (node: Node) => string;
}>([
  {
    what: "the state directory cannot be used",
    async take(node) {
      await rm(node.state, { recursive: true });
      await writeFile(node.state, "not a directory");
    },
    restore: (node) => rm(node.state),
    reason: (node) => `the state directory ${node.state} cannot be used`,
  },
  {
    what: "the shim is missing",
    take: (node) => unlink(join(node.bin, "plexus")),
    restore: (node) => node.install("plexus"),
    reason: (node) => `plexus is not installed in ${node.bin}`,
  },
  {
    what: "a plugin of the configured delegates is missing",
    spec: { withoutPrimary: true, delegates },
    take: async () => undefined,
    restore: (node) => node.install("tuning"),
    reason: (node) =>
      `delegates[0] cannot be used: its plugins are not all there: tuning not found in ${node.bin}`,
  },
])("writes no file while $what", async ({ spec, take, restore, reason }) => {
  const node = await calicoNode();
  await take(node);
  const conf = await node.start(spec);
  expect(conf.notReadyReason()).toContain(reason(node));
  expect(await node.own()).toBeUndefined();
  await restore(node);
  await vi.waitFor(() => expect(conf.status().state).toBe("active"));
  await conf.stop();
  const left = (await readdir(node.state)).filter((name) => name !== "primary-conf");
  expect(left).toEqual([]);
});

test("a plugin in a directory that plexusd cannot see is a warning", async () => {
  const node = await makeNode({ view: (root) => viewOf([root]) });
  await node.put("10-calico.conflist", calico.replace("portmap", "other"));
  const conf = await node.start({ binDirs: ["/usr/libexec/cni", node.bin] });
  expect(conf.status()).toEqual({
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

test("keeps an existing file, and is not ready, while the shim is missing", async () => {
  const node = await calicoNode();
  await (await node.start()).stop();
  const written = await node.own();
  await unlink(join(node.bin, "plexus"));
  const conf = await node.start();
  expect(conf.status().state).toBe("waiting");
  expect(await node.own()).toEqual(written);
});
