import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bridgeList, type DriverBench, startBench } from "#docker/testing/driver-bench.ts";

/** Creates a network with options of `-o`; the driver's answer. */
async function create(bench: DriverBench, options: object, others = {}): Promise<unknown> {
  const Options = { "com.docker.network.generic": options, ...others };
  return (await bench.call("CreateNetwork", { NetworkID: "n1", Options })).json.Err;
}

/** The configuration that is kept of the network. */
async function kept(bench: DriverBench): Promise<{ displayName: string; conf: { name: string } }> {
  return JSON.parse(await readFile(join(bench.dir, "networks/n1.json"), "utf8"));
}

function definition(name: string, namespace: string): string {
  return JSON.stringify({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace },
    spec: { config: JSON.stringify({ cniVersion: "1.0.0", type: "macvlan" }) },
  });
}

test("a network may be JSON, of one plugin or a list", async () => {
  const bench = await startBench();
  expect(await create(bench, { "plexus.network": JSON.stringify(bridgeList) })).toBeUndefined();
  expect(await kept(bench)).toMatchObject({ displayName: "red" });
  const single = JSON.stringify({ cniVersion: "0.3.1", name: "one", type: "macvlan" });
  expect(await create(bench, { "plexus.network": single })).toBeUndefined();
  expect(await kept(bench)).toMatchObject({ displayName: "one", conf: { name: "one" } });
});

test("a network may be a file: a configuration, or a manifest with one definition", async () => {
  const bench = await startBench();
  const conflist = join(bench.dir, "red.conflist");
  await writeFile(conflist, JSON.stringify(bridgeList));
  expect(await create(bench, { "plexus.network": conflist })).toBeUndefined();
  const manifest = join(bench.dir, "net.yaml");
  await writeFile(manifest, definition("blue", "infra"));
  expect(await create(bench, { "plexus.network": manifest })).toBeUndefined();
  expect(await kept(bench)).toMatchObject({ displayName: "infra/blue", conf: { name: "blue" } });
  await writeFile(manifest, `${definition("a", "x")}\n---\n${definition("b", "x")}`);
  expect(await create(bench, { "plexus.network": manifest })).toContain(
    "has 2 NetworkAttachmentDefinitions instead of one",
  );
  expect(await create(bench, { "plexus.network": join(bench.dir, "none.conflist") })).toContain(
    "none.conflist",
  );
});

test("a network may be a configuration by its CNI name", async () => {
  const bench = await startBench();
  await mkdir(join(bench.dir, "net.d"));
  await writeFile(join(bench.dir, "net.d/10-red.conflist"), JSON.stringify(bridgeList));
  expect(await create(bench, { "plexus.network": "red" })).toBeUndefined();
});

test.each([
  [{}, "-o plexus.network: "],
  [{ "plexus.network": "" }, "-o plexus.network: must not be empty"],
  [{ "plexus.network": "a/b/c" }, "is not a definition (NAME or NAMESPACE/NAME), a file or JSON"],
  [{ "plexus.network": "red", "plexus.mode": "fast" }, "-o plexus.mode: "],
  [{ "plexus.network": "red", "plexus.gateway": "10.0.0.1" }, "-o plexus.gateway: "],
  [{ "plexus.network": "red", "plexus.ifprefix": "1/2" }, "-o plexus.ifprefix: must be"],
  [{ "plexus.network": "red", "plexus.colour": "x" }, "-o plexus.colour: unknown key"],
  [{ "plexus.network": '{"type":"plexus","name":"a"}' }, "plexus"],
  [
    { "plexus.network": "red", "plexus.mode": "direct", "plexus.gateway": "none" },
    "-o plexus.gateway: needs staged mode",
  ],
])("the options %j are rejected", async (options, problem) => {
  expect(await create(await startBench(), options)).toContain(problem);
});

test("an internal network cannot be attached inside the container", async () => {
  const bench = await startBench();
  const options = { "plexus.mode": "direct" };
  const Options = { "com.docker.network.internal": true };
  expect(await create(bench, { "plexus.network": "red", ...options }, Options)).toContain(
    "--internal needs staged mode",
  );
});

test("options without the prefix are ignored, and the case of keys does not matter", async () => {
  const bench = await startBench();
  const network = JSON.stringify(bridgeList);
  const options = { "Plexus.Network": network, "com.docker.network.driver.mtu": "1400" };
  expect(await create(bench, options)).toBeUndefined();
});

test.each([
  [{ type: "sbr" }, "the policy routes of plugin sbr"],
  [{ type: "tuning", sysctl: { "net.core.somaxconn": "500" } }, "the sysctls of plugin tuning"],
  [{ type: "macvlan", ipam: { type: "dhcp" } }, "the renewals of plugin dhcp"],
])("staged mode rejects what an interface would lose: %j", async (plugin, lost) => {
  const bench = await startBench();
  const list = { cniVersion: "1.0.0", name: "x", plugins: [{ type: "bridge" }, plugin] };
  const network = JSON.stringify(list);
  const problem = await create(bench, { "plexus.network": network });
  expect(problem).toContain(lost);
  expect(problem).toContain("-o plexus.mode=direct (Docker Engine 28 or later)");
  const direct = { "plexus.network": network, "plexus.mode": "direct" };
  expect(await create(bench, direct)).toBeUndefined();
});

test("a network that is created again is resolved again", async () => {
  const bench = await startBench();
  await bench.createNetwork();
  await bench.createNetwork({ ...bridgeList, name: "other" });
  expect(await kept(bench)).toMatchObject({ displayName: "other" });
});
