import { expect } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import type { Execution } from "../../support/node/scripted-plugins.ts";
import { attachOrder, scriptedTest as test } from "../../support/node/test.ts";

const chain = attachOrder();

test("ADD attaches the default network first, then each requested one in order; DEL reverses the order [N-6.2] [N-7.3] [R-0.4-01] [R-1.0-24]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("order", { networks: "beta,alpha" });
  await pod.mustAdd();
  expect(await plugins.order()).toEqual([...chain, "ADD beta/net1", "ADD alpha/net2"]);
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual([
    "DEL alpha/net2",
    "DEL beta/net1",
    "DEL default-second/eth0",
    "DEL default-first/eth0",
  ]);
});

test("delegates get only the runtime's environment and CNI_* variables [R-0.3-13] [R-0.4-35] [N-4.2.1a]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("environment", { networks: "alpha@data0", uid: "u-1" });
  const env = { MARK: "of the runtime", LANG: "C", EMPTY: "" };
  const args = "FLAVOUR=sweet;IP=10.0.0.9";
  const request = pod.request("ADD", { env, args });
  expect((await node.call(request)).exitCode).toBe(0);
  const given = node.environment(request);
  const [first, second, alpha] = await plugins.executions();
  const own = Object.entries(given).filter(([name]) => !name.startsWith("CNI_"));
  for (const execution of [first, second, alpha]) {
    const passed = execution?.env.filter((entry) => !entry.startsWith("CNI_")).toSorted();
    expect(passed).toEqual(own.map(([name, value]) => `${name}=${value}`).toSorted());
  }
  const { CNI_ARGS, ...common } = first?.cni ?? {};
  expect(common).toEqual({
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c-environment",
    CNI_NETNS: "/run/netns/ns-environment",
    CNI_IFNAME: "eth0",
    CNI_PATH: plugins.binDir,
  });
  const identity = [
    "IgnoreUnknown=1",
    "K8S_POD_NAMESPACE=default",
    "K8S_POD_NAME=environment",
    "K8S_POD_INFRA_CONTAINER_ID=c-environment",
    "K8S_POD_UID=u-1",
    "FLAVOUR=sweet",
  ];
  expect(CNI_ARGS?.split(";").toSorted()).toEqual([...identity, "IP=10.0.0.9"].toSorted());
  expect(second?.cni).toEqual(first?.cni);
  expect(alpha?.cni).toEqual({
    ...first?.cni,
    CNI_IFNAME: "data0",
    CNI_ARGS: alpha?.cni.CNI_ARGS,
  });
  expect(
    alpha?.cni.CNI_ARGS?.split(";").toSorted(),
    "only the default network gets the runtime's IP argument",
  ).toEqual(identity.toSorted());
  await pod.mustDel();
});

/** Without empty lists, as libcni passes it. */
const result = {
  cniVersion: "1.0.0",
  interfaces: [{ mac: "02:00:00:00:00:01", name: "eth0", sandbox: "/run/netns/ns-stdin" }],
};

test("each plugin of a chain gets its own configuration with name, cniVersion, prevResult and runtimeConfig, byte by byte [S-400] [N-7.1a] [R-0.3-09] [R-0.3-10] [R-0.3-11] [R-1.0-04] [R-1.0-26] [R-1.1-07]", async ({
  node,
  plugins,
}) => {
  const first = {
    type: "default-first",
    capabilities: { portMappings: true, mac: false },
    zone: "ü€𝄞",
  };
  const second = {
    type: "default-second",
    name: "overridden",
    cniVersion: "0.1.0",
    nested: { a: [1, null] },
  };
  const conf = node.conf({
    delegates: [list("default", first, second)],
    runtimeConfig: {
      portMappings: [{ hostPort: 1, containerPort: 2, protocol: "tcp" }],
      mac: "02:00:00:00:00:09",
    },
  });
  const pod = await node.pod("stdin");
  await pod.mustAdd({ conf });
  const mappings = { portMappings: [{ hostPort: 1, containerPort: 2, protocol: "tcp" }] };
  const inputs = (await plugins.executions()).map((execution) => execution.stdin);
  const common = { cniVersion: "1.0.0", name: "default" };
  expect(inputs).toEqual([
    sortedJson({ ...first, ...common, runtimeConfig: mappings }),
    sortedJson({ ...second, ...common, prevResult: result }),
  ]);
  await plugins.clear();
  await pod.mustDel({ conf: '{"cniVersion":"1.0.0","name":"plexus","type":"plexus"}' });
  const deleted = (await plugins.executions()).map((execution) => execution.stdin);
  expect(deleted, "DEL uses the record, and every plugin gets the final result").toEqual([
    sortedJson({ ...second, ...common, prevResult: result }),
    sortedJson({ ...first, ...common, prevResult: result, runtimeConfig: mappings }),
  ]);
});

test("integers beyond 2^53 reach the plugins of a definition unchanged, from ADD to DEL", async ({
  node,
  plugins,
}) => {
  const digits = "9007199254740993";
  const conf = list("net-long", { type: "alpha" }, { type: "beta" });
  const config = JSON.stringify(conf).replaceAll('"type":', `"id":${digits},"type":`);
  await node.manifest("nad-long", { ...nad("long", conf), spec: { config } });
  const annotation = `[{"name": "long", "cni-args": {"mark": ${digits}}}]`;
  const pod = await node.pod("long", { networks: annotation });
  const printed = `{"cniVersion":"1.0.0","interfaces":[],"unknown":${digits}}`;
  await plugins.script("alpha", "ADD", { stdout: printed });
  await pod.mustAdd();
  await pod.mustDel();
  const calls = (await plugins.executions()).filter(({ type }) => ["alpha", "beta"].includes(type));
  expect(calls).toHaveLength(4);
  for (const { stdin } of calls) {
    expect(stdin).toContain(`"id":${digits}`);
    expect(stdin).toContain(`"mark":${digits}`);
  }
  expect(calls[1]?.stdin, "prevResult").toContain(`"unknown":${digits}`);
});

test("the default network's runtimeConfig holds the runtime's capabilities, that of others the requests their plugins declare [N-7.5] [N-4.1.2.1.3.2a] [N-4.1.2.1.4.2a] [N-4.1.2.1.7.2a] [N-4.1.2.1.8.2a]", async ({
  node,
  plugins,
}) => {
  const capabilities = { ips: true, mac: true, portMappings: true, bandwidth: true };
  node.defaultNetwork = list("default", { type: "default-first", capabilities });
  await node.nad("all", list("net-all", { type: "alpha", capabilities }, { type: "beta" }));
  const request = {
    name: "all",
    ips: ["10.2.2.42/24", "2001:db8::5/64"],
    mac: "02:23:45:67:89:01",
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "udp" }],
  };
  const pod = await node.pod("requests", { networks: [request] });
  const link = { name: "net1", mac: request.mac, sandbox: `/run/netns/${pod.netns}` };
  const ips = request.ips.map((address) => ({ address, interface: 0 }));
  const served = { cniVersion: "1.0.0", interfaces: [link], ips };
  await plugins.script("beta", "ADD", { stdout: JSON.stringify(served) });
  const runtimeConfig = { bandwidth: { ingressRate: 1, ingressBurst: 1 } };
  await pod.mustAdd({ runtimeConfig });
  const { name: _, ...requested } = request;
  const given = (await plugins.executions()).map((each) => confOf(each).runtimeConfig);
  expect(given).toEqual([runtimeConfig, requested, undefined]);
  await pod.mustDel();
});

test("cni-args are merged into the args of the definition and override them [S-303] [N-4.1.2.1.6a] [N-4.1.2.1.6.2a] [N-4.1.2.1.6.2b]", async ({
  node,
  plugins,
}) => {
  const args = { cni: { spoofchk: "off", kept: [1] }, other: true };
  await node.nad("with-args", list("net-args", { type: "alpha", args }));
  const networks = [{ name: "with-args", "cni-args": { spoofchk: "on", deep: { er: null } } }];
  const pod = await node.pod("cni-args", { networks });
  await pod.mustAdd();
  const [alpha] = (await plugins.executions()).filter((e) => e.type === "alpha");
  expect(confOf(alpha).args).toEqual({
    cni: { spoofchk: "on", kept: [1], deep: { er: null } },
    other: true,
  });
  await pod.mustDel();
});

function confOf(execution: Execution | undefined): Record<string, unknown> {
  return JSON.parse(execution?.stdin ?? "null") as Record<string, unknown>;
}

/** libcni writes a plugin's configuration with sorted keys. */
function sortedJson(conf: object): string {
  const entries = Object.entries(conf).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(entries));
}
