import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { bridge, macvlan, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { test } from "../../support/node/test.ts";

test.beforeAll(async ({ node }) => {
  await node.lab.addUplink("up0");
  node.defaultNetwork = ptp("default", 60);
  await node.nad("macvlan", macvlan("macvlan", 61));
  await node.nad("bridge", bridge("bridge", 62));
  await node.nad("shared", bridge("shared", 63), { namespace: "other" });
});

const names = async (pod: { links(): Promise<object> }): Promise<string[]> =>
  Object.keys(await pod.links());
const statusNames = async (pod: {
  status(): Promise<Record<string, unknown>[]>;
}): Promise<unknown[]> =>
  (await pod.status()).map((entry) => [entry.name, entry.interface, entry.default]);

test("comma form: networks of the pod's and another namespace, with and without an interface name [N-4.1a] [N-4.1.1a] [N-4.1.1b] [N-4.2a] [N-4.2b] [N-4a] [N-6a]", async ({
  node,
}) => {
  const pod = await node.pod("commas", {
    networks: "macvlan@data0, other/shared ,other/shared@data1,default/bridge",
  });
  await pod.mustAdd();
  expect(await names(pod)).toEqual(["eth0", "data0", "net2", "data1", "net4"]);
  expect(await statusNames(pod)).toEqual([
    ["default", "eth0", true],
    ["default/macvlan", "data0", false],
    ["other/shared", "net2", false],
    ["other/shared", "data1", false],
    ["default/bridge", "net4", false],
  ]);
  await pod.mustDel();
  expect(await names(pod)).toEqual([]);
});

test("JSON form: namespace and interface keys are used, unknown keys are ignored [N-4.1.2a] [N-4.1.2.1a] [N-4.1.2.1.1] [N-4.1.2.1.2] [N-4.1.2.1.5a] [N-4.1.2.1.5.1]", async ({
  node,
}) => {
  const networks = [
    { name: "shared", namespace: "other", interface: "ext.7" },
    { name: "macvlan", namespace: "", "org.example.note": { any: ["thing"] } },
  ];
  const pod = await node.pod("json", { networks });
  await pod.mustAdd();
  expect(await names(pod)).toEqual(["eth0", "ext.7", "net2"]);
  await pod.mustDel();
});

test("a generated interface name skips requested names and interfaces already in the pod [N-4.2.1b]", async ({
  node,
}) => {
  const pod = await node.pod("aside", { networks: "macvlan,bridge@net1" });
  await pod.addLink("net2");
  await pod.mustAdd();
  const status = await statusNames(pod);
  expect(status[1]).toEqual(["default/macvlan", "net3", false]);
  expect(status[2]).toEqual(["default/bridge", "net1", false]);
  await pod.mustDel();
  expect(await names(pod)).toEqual(expect.arrayContaining(["net2"]));
});

test("an invalid annotation is ignored and reported [N-4.1.2.1.4b]", async ({ node }) => {
  const pod = await node.newPod({ networks: '[{"name":"macvlan","mac":"02:00:00:00:00"}]' });
  await pod.mustAdd();
  expect(await names(pod)).toEqual(["eth0"]);
  const [entry, ...others] = await pod.status();
  expect(entry?.["plexus.dev/annotation-error"]).toMatch(/network selection annotation/);
  expect(others).toEqual([]);
  expect(node.log).toContain("the pod gets its default network only");
  await pod.mustDel();
});

test("namespaceIsolation applies to both annotations [S-301] [N-7.4]", async ({ node }) => {
  const conf = node.conf({ namespaceIsolation: true });
  const pod = await node.pod("isolated", { namespace: "tenant", networks: "other/shared" });
  expect(errorOf(await pod.add({ conf }))).toMatchObject({ code: 101 });
  await pod.annotate({ annotations: { "v1.multus-cni.io/default-network": "other/shared" } });
  expect(errorOf(await pod.add({ conf }))).toMatchObject({ code: 101 });
  await pod.annotate({ networks: "default/macvlan" });
  await pod.mustAdd({ conf });
  expect(await names(pod), "default is a global namespace").toEqual(["eth0", "net1"]);
  await pod.mustDel();
});

test("a definition without a config uses the conflist on disk with its name, or else the conf [N-3.2a] [N-3.4.1b] [N-3.4.1c] [N-3.4.2] [N-3.4.3]", async ({
  node,
}) => {
  const confDir = join(node.lab.dir, "net.d");
  await mkdir(confDir);
  const single = {
    cniVersion: "1.0.0",
    name: "single",
    ...(ptp("", 65) as { plugins: object[] }).plugins[0],
  };
  await writeFile(join(confDir, "10-single.conf"), JSON.stringify(single));
  await writeFile(join(confDir, "20-both.conf"), JSON.stringify({ ...single, name: "both" }));
  await writeFile(join(confDir, "30-both.conflist"), JSON.stringify(macvlan("both", 66)));
  for (const name of ["single", "both", "neither"]) await node.nad(name, undefined);
  const { name: _name, ...nameless } = bridge("", 67) as { name: string };
  await node.nad("nameless", nameless);
  await node.nad("other-name", ptp("its-cni-name", 68));
  const conf = node.conf({ confDir });
  const pod = await node.pod("on-disk", { networks: "single,both,nameless,other-name" });
  await pod.mustAdd({ conf });
  const nets = await Promise.all(
    ["net1", "net2", "net3", "net4"].map((name) => pod.addresses(name)),
  );
  expect(nets.map(([address]) => address?.slice(0, 6))).toEqual([
    "10.65.",
    "10.66.",
    "10.67.",
    "10.68.",
  ]);
  expect(await node.lab.run("ls", "/var/lib/cni/networks")).toMatch(/its-cni-name[\s\S]*nameless/);
  await pod.mustDel();
  const missing = await node.pod("not-on-disk", { networks: "neither" });
  expect(errorOf(await missing.add({ conf })).msg).toContain("neither");
});
