import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { repeatedNetworkProblems } from "./repeated-networks.ts";

function withPlugin(
  plugin: JsonObject,
  capabilityArgs: JsonObject = {},
  { name = "net", displayName = "default/a" } = {},
): ResolvedNetwork {
  const conf = { cniVersion: "1.0.0", name, plugins: [{ type: "bridge" }, plugin] };
  const list = parseNetConfList(conf, { source: "test" });
  return { displayName, isDefault: false, list, capabilityArgs };
}

const plain = withPlugin({ type: "tuning" });
const masquerading = { type: "ptp", ipMasq: true };
const portmap = { type: "portmap", capabilities: { portMappings: true } };
const bandwidth = { type: "bandwidth", capabilities: { bandwidth: true } };
const mapped = { portMappings: [{ hostPort: 80, containerPort: 80, protocol: "tcp" }] };

test("repeatedNetworkProblems() allows any number of attachments to a network [N-4.2a]", () => {
  expect(repeatedNetworkProblems([plain, plain, plain])).toEqual([]);
});

const limited = { bandwidth: { egressRate: 1 } };

test.each<[problem: string, plugin: JsonObject, capabilityArgs: JsonObject, kept: string]>([
  ["masquerades", masquerading, {}, "ptp keeps its masquerading rules"],
  [
    "masquerades, in the spelling that Go also reads,",
    { type: "ptp", IPMasq: true },
    {},
    "ptp keeps its masquerading rules",
  ],
  ["maps ports", portmap, mapped, "portmap keeps its port mapping rules"],
  ["is limited by request", bandwidth, limited, "bandwidth keeps its shaping device"],
  [
    "is limited by its configuration",
    { type: "bandwidth", egressRate: 1 },
    {},
    "bandwidth keeps its shaping device",
  ],
  [
    "is limited by the runtime",
    bandwidth,
    { bandwidth: { EgressRate: 1 } },
    "bandwidth keeps its shaping device",
  ],
])("a second attachment that %s is refused", (...[, plugin, capabilityArgs, kept]) => {
  const network = withPlugin(plugin, capabilityArgs);
  const repeated = withPlugin(plugin, capabilityArgs, { displayName: "default/b" });
  const message = `network net cannot be attached twice to one pod (default/b): plugin ${kept} `;
  expect(repeatedNetworkProblems([network, plain, repeated])).toMatchObject([
    { network: "default/b", error: { code: 100, message: expect.stringContaining(message) } },
  ]);
  for (const other of [plain, withPlugin({ ...plugin, ipMasq: false, egressRate: 0 })]) {
    expect(repeatedNetworkProblems([network])).toEqual([]);
    expect(repeatedNetworkProblems([network, other])).toEqual([]);
    expect(repeatedNetworkProblems([other, network])).toEqual([]);
  }
});

test("repeatedNetworkProblems() compares what plugins keep, not their types", () => {
  const bridge = withPlugin({ type: "bridge", ipMasq: true });
  expect(repeatedNetworkProblems([withPlugin(masquerading), bridge])).toHaveLength(1);
  expect(repeatedNetworkProblems([bridge, withPlugin(portmap, mapped)])).toEqual([]);
});

test("repeatedNetworkProblems() allows a list with such a plugin twice", () => {
  const conf = { cniVersion: "1.0.0", name: "net", plugins: [masquerading, masquerading] };
  const list = parseNetConfList(conf, { source: "test" });
  expect(repeatedNetworkProblems([{ ...plain, list }, plain])).toEqual([]);
});

test("repeatedNetworkProblems() reports each repeated network once", () => {
  const network = withPlugin(masquerading);
  expect(repeatedNetworkProblems([network, network, network])).toHaveLength(1);
});

test("repeatedNetworkProblems() compares the names of the CNI networks, not of the definitions", () => {
  const one = withPlugin(masquerading);
  const other = withPlugin(masquerading, {}, { displayName: "default/b" });
  expect(repeatedNetworkProblems([one, other])).toHaveLength(1);
  const renamed = withPlugin(masquerading, {}, { name: "net-2" });
  expect(repeatedNetworkProblems([one, renamed])).toEqual([]);
});

test.each<[where: string, plugin: JsonObject, capabilityArgs: JsonObject]>([
  ["no port is mapped", portmap, {}],
  ["the runtime sends an empty list of ports", portmap, { portMappings: [] }],
  ["the plugin does not declare the capability", { type: "portmap" }, mapped],
  ["another plugin has the port mappings", { ...portmap, type: "firewall" }, mapped],
  ["another plugin has a limit", { type: "shaper", egressRate: 1 }, {}],
  ["no rate is limited", bandwidth, {}],
  ["the limit is null", { type: "bandwidth", egressRate: null }, {}],
  ["the shaper does not declare the capability", { type: "bandwidth" }, limited],
  ["the limits are zero", bandwidth, { bandwidth: { ingressRate: 0, egressRate: 0 } }],
  ["the configuration's limits are zero", { type: "bandwidth", egressRate: 0 }, {}],
  ["only traffic to the pod is limited", bandwidth, { bandwidth: { ingressRate: 1 } }],
])("repeatedNetworkProblems() allows a second attachment if %s", (_, plugin, capabilityArgs) => {
  const network = withPlugin(plugin, capabilityArgs);
  expect(repeatedNetworkProblems([network, network])).toEqual([]);
});
