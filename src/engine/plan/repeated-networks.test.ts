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

test.each<[problem: string, plugin: JsonObject, capabilityArgs: JsonObject, kept: string]>([
  ["masquerades", masquerading, {}, "ptp keeps its masquerading rules"],
  ["maps ports", portmap, mapped, "portmap keeps its port mapping rules"],
  [
    "is limited by request",
    bandwidth,
    { bandwidth: { ingressRate: 1 } },
    "bandwidth keeps its shaping device",
  ],
  [
    "is limited by its configuration",
    { type: "bandwidth", egressRate: 1 },
    {},
    "bandwidth keeps its shaping device",
  ],
])(
  "repeatedNetworkProblems() refuses a second attachment that %s and says why",
  (...[, plugin, capabilityArgs, kept]) => {
    const network = withPlugin(plugin, capabilityArgs);
    expect(repeatedNetworkProblems([network])).toEqual([]);
    const message = `network net cannot be attached twice to one pod (default/a): plugin ${kept} `;
    expect(repeatedNetworkProblems([plain, network])).toMatchObject([
      { network: "default/a", error: { code: 100, message: expect.stringContaining(message) } },
    ]);
  },
);

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
  ["no rate is limited", bandwidth, {}],
])("repeatedNetworkProblems() allows a second attachment if %s", (_, plugin, capabilityArgs) => {
  const network = withPlugin(plugin, capabilityArgs);
  expect(repeatedNetworkProblems([network, network])).toEqual([]);
});
