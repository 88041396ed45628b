import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { checkRepeatedNetworks } from "./repeated-networks.ts";

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

test("checkRepeatedNetworks() lets a network be attached as often as wanted [N-4.2a]", () => {
  expect(() => checkRepeatedNetworks([plain, plain, plain])).not.toThrow();
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
  "checkRepeatedNetworks() refuses a second attachment that $problem and says why",
  ({ network, reason }) => {
    expect(() => checkRepeatedNetworks([network])).not.toThrow();
    const refuse = (): void => checkRepeatedNetworks([plain, network]);
    expect(refuse).toThrow(expect.objectContaining({ code: 100 }));
    expect(refuse).toThrow(/network net .*default\/a/);
    expect(refuse).toThrow(reason);
  },
);

test("checkRepeatedNetworks() compares the names of the CNI networks, not of the definitions", () => {
  const masquerading = { type: "ptp", ipMasq: true };
  const one = withPlugin(masquerading, { display: "default/a" });
  const other = withPlugin(masquerading, { display: "default/b" });
  expect(() => checkRepeatedNetworks([one, other])).toThrow();
  const renamed = withPlugin(masquerading, { name: "net-2" });
  expect(() => checkRepeatedNetworks([one, renamed])).not.toThrow();
});

test.each([
  ["no port is mapped", portmap, {}],
  ["the runtime sends an empty list of ports", portmap, { capabilityArgs: { portMappings: [] } }],
  ["the plugin has not the capability", { type: "portmap" }, mapped],
  ["no rate is limited", bandwidth, {}],
])("checkRepeatedNetworks() allows it where %s", (_, plugin, options) => {
  const network = withPlugin(plugin, options);
  expect(() => checkRepeatedNetworks([network, network])).not.toThrow();
});
