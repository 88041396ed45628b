import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { repeatedNetworkProblems } from "./repeated-networks.ts";

interface Case {
  readonly name?: string;
  readonly capabilityArgs?: JsonObject;
  readonly display?: string;
}

function withPlugin(plugin: JsonObject, options: Case = {}): ResolvedNetwork {
  const { name = "net", capabilityArgs = {}, display = "default/a" } = options;
  const conf = { cniVersion: "1.0.0", name, plugins: [{ type: "bridge" }, plugin] };
  const list = parseNetConfList(conf, { source: "test" });
  return { displayName: display, isDefault: false, list, capabilityArgs };
}

const plain = withPlugin({ type: "tuning" });
const portmap = { type: "portmap", capabilities: { portMappings: true } };
const bandwidth = { type: "bandwidth", capabilities: { bandwidth: true } };
const mapped = {
  capabilityArgs: { portMappings: [{ hostPort: 80, containerPort: 80, protocol: "tcp" }] },
};

test("repeatedNetworkProblems() lets a network be attached as often as wanted [N-4.2a]", () => {
  expect(repeatedNetworkProblems([plain, plain, plain])).toEqual([]);
});

test.each([
  {
    problem: "masquerades",
    network: withPlugin({ type: "ptp", ipMasq: true }),
    reason: /ptp.*its masquerading rules/,
  },
  {
    problem: "maps ports",
    network: withPlugin(portmap, mapped),
    reason: /portmap.*its port mapping rules/,
  },
  {
    problem: "is limited by request",
    network: withPlugin(bandwidth, { capabilityArgs: { bandwidth: { ingressRate: 1 } } }),
    reason: /bandwidth.*its shaping device/,
  },
  {
    problem: "is limited by its configuration",
    network: withPlugin({ type: "bandwidth", egressRate: 1 }),
    reason: /bandwidth.*its shaping device/,
  },
])(
  "repeatedNetworkProblems() refuses a second attachment that $problem and says why",
  ({ network, reason }) => {
    expect(repeatedNetworkProblems([network])).toEqual([]);
    const [problem, ...others] = repeatedNetworkProblems([plain, network]);
    expect(others).toEqual([]);
    expect(problem).toMatchObject({ network: "default/a", error: { code: 100 } });
    expect(problem?.error.message).toMatch(/network net .*default\/a/);
    expect(problem?.error.message).toMatch(reason);
  },
);

test("repeatedNetworkProblems() compares the names of the CNI networks, not of the definitions", () => {
  const masquerading = { type: "ptp", ipMasq: true };
  const one = withPlugin(masquerading, { display: "default/a" });
  const other = withPlugin(masquerading, { display: "default/b" });
  expect(repeatedNetworkProblems([one, other])).toHaveLength(1);
  const renamed = withPlugin(masquerading, { name: "net-2" });
  expect(repeatedNetworkProblems([one, renamed])).toEqual([]);
});

test.each([
  ["no port is mapped", portmap, {}],
  ["the runtime sends an empty list of ports", portmap, { capabilityArgs: { portMappings: [] } }],
  ["the plugin has not the capability", { type: "portmap" }, mapped],
  ["no rate is limited", bandwidth, {}],
])("repeatedNetworkProblems() allows it where %s", (_, plugin, options) => {
  const network = withPlugin(plugin, options);
  expect(repeatedNetworkProblems([network, network])).toEqual([]);
});
