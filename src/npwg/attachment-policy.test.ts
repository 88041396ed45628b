import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { checkAttachmentPolicy, restrictedPlugins } from "./attachment-policy.ts";

const restricted = { rule: "attachmentPolicy", plugins: restrictedPlugins };

/** Checks the text of a definition. */
function check(text: string, policy = restricted): void {
  const list = parseNetConfList(JSON.parse(text), { source: "spec.config", name: "net" });
  checkAttachmentPolicy(list, { config: text }, policy);
}

const list = (...plugins: JsonObject[]): string =>
  JSON.stringify({ cniVersion: "1.0.0", name: "net", plugins });
const macvlan = (keys: JsonObject): string => list({ type: "macvlan", master: "eth1", ...keys });

test.each([
  macvlan({ ipam: { type: "host-local", subnet: "10.1.0.0/16", routes: [{ dst: "0.0.0.0/0" }] } }),
  macvlan({
    ipam: { type: "host-local", ranges: [[{ subnet: "10.1.0.0/16", rangeEnd: "10.1.0.9" }]] },
  }),
  macvlan({ ipam: { type: "whereabouts", range: "2001:db8::/64", exclude: ["2001:db8::/80"] } }),
  macvlan({ ipam: { type: "whereabouts", range: "10.0.0.0/8", node_slice_size: "/22" } }),
  macvlan({ ipam: { type: "static", addresses: [{ address: "10.1.0.4/16" }] } }),
  macvlan({ ipam: { type: "dhcp" }, capabilities: { ips: true, mac: true } }),
  macvlan({ ipam: { type: "" }, mode: "bridge", args: { cni: { mac: "02:00:00:00:00:01" } } }),
  macvlan({ ipam: {} }),
  list({ type: "macvlan" }, { type: "tuning", sysctl: { "net.core.a": "1" } }),
  list({ type: "macvlan" }, { type: "tuning", sysctl: { "net/ipv4/conf/IFNAME/rp_filter": "0" } }),
  list({ type: "vlan", master: "bond0", vlanId: 5, dns: { nameservers: ["10.1.0.1"] } }),
  '{"type":"vlan","cniVersion":"0.3.1"}',
])("restricted permits %s [S-405]", (text) => {
  expect(() => check(text)).not.toThrow();
});

const kubeconfig = "var/lib/kubelet/pods/a/volumes/kubernetes.io~empty-dir/v/kc";

test.each<[text: string, problem: string]>([
  [list({ type: "host-device" }), 'plugins[0].type: "host-device" is not one of bandwidth, dhcp'],
  [list({ type: "macvlan" }, { type: "portmap" }), 'plugins[1].type: "portmap" is not one of'],
  [list({ type: "ptp" }), '"ptp" is not one of'],
  [list({ type: "bridge" }), '"bridge" is not one of'],
  [macvlan({ ipam: { type: "evil" } }), 'plugins[0].ipam.type: "evil" is not one of'],
  [macvlan({ delegate: { type: "evil" } }), 'plugins[0].delegate.type: "evil" is not one of'],
  [macvlan({ x: [{ type: ["static"] }] }), 'plugins[0].x[0].type: ["static"] is not one of'],
  [macvlan({ ipam: { type: "static", Type: "evil" } }), 'the key "Type" occurs twice in an object'],
  ['{"type":"evil","TYPE":"macvlan"}', 'the key "TYPE" occurs twice in an object'],
  ['{"type":"macvlan","ipam":{"\\u0074ype":"evil"}}', 'plugins[0].ipam.type: "evil"'],
  ['{"type":"macvlan","ipam":{"type":"static","type":"dhcp"}}', 'the key "type" occurs twice'],
  ['{"Type":"macvlan"}', 'the key "Type" must be spelled "type"'],
  [macvlan({ Ipam: { type: "static" } }), 'the key "Ipam" must be spelled "ipam"'],
  [list({ type: "tuning", ſysctl: { "kernel.core_pattern": "x" } }), "plugins[0].ſysctl: only a"],
  [list({ type: "tuning", ſysctl: { "kernel.core_pattern": "x" } }), "is not below net"],
  [list({ type: "tuning", sysctl: { "net.ipv4/../../kernel/a": "1" } }), "is not below net"],
  [list({ type: "tuning", sysctl: { "vm.swappiness": "1" } }), '"vm.swappiness" is not below net'],
  [macvlan({ args: { cni: { SYSCTL: { "kernel.a": "1" } } } }), 'args.cni.sysctl: "kernel.a" is'],
  [list({ type: "tuning", dataDir: "etc" }), "plugins[0].dataDir: only a trusted definition may"],
  [macvlan({ ipam: { type: "host-local", dataDir: "etc" } }), "ipam.dataDir: only a trusted"],
  [macvlan({ ipam: { type: "host-local", resolvConf: "etc/shadow" } }), "ipam.resolvConf: only"],
  [macvlan({ ipam: { type: "dhcp", daemonSocketPath: "@x" } }), "ipam.daemonSocketPath: only"],
  [macvlan({ ipam: { type: "whereabouts", log_file: "x" } }), "ipam.log_file: only a trusted"],
  [macvlan({ ipam: { type: "whereabouts", kubernetes: { kubeconfig } } }), "ipam.kubernetes: only"],
  [macvlan({ ipam: { type: "whereabouts", configuration_path: "a" } }), "ipam.configuration_path"],
  [macvlan({ ipam: { type: "whereabouts", sleep_for_race: 600 } }), "ipam.sleep_for_race: only"],
  [macvlan({ ipam: { type: "whereabouts", leader_lease_duration: 1 } }), "leader_lease_duration"],
  [macvlan({ runtimeConfig: { deviceID: "0000:03:02.1" } }), "plugins[0].runtimeConfig: only"],
  [macvlan({ mode: "passthru" }), 'plugins[0].mode: "passthru" takes a link of the node'],
  [macvlan({ Mode: "passthru" }), "plugins[0].Mode: only a trusted definition may give macvlan"],
])("restricted does not permit %s [S-404]", (text, problem) => {
  const message = expect.stringContaining(problem);
  const named = expect.stringMatching(/^attachmentPolicy does not permit this definition: /);
  expect(() => check(text)).toThrow(expect.objectContaining({ code: 101, message }));
  expect(() => check(text)).toThrow(expect.objectContaining({ message: named }));
});

test("a list of types replaces those of restricted; of known ones, only the same keys are permitted", () => {
  const policy = { rule: "attachmentPolicy", plugins: ["sriov", "bridge", "whereabouts"] };
  const text = (keys: JsonObject): string => list({ type: "sriov", ...keys });
  expect(() => check(text({ vlan: 5, logFile: "x" }), policy)).not.toThrow();
  const whereabouts = { type: "whereabouts", log_file: "x" };
  expect(() => check(text({ ipam: whereabouts }), policy)).toThrow("ipam.log_file: only a trusted");
  expect(() => check(text({ a: [{ delegate: { type: "x" } }] }), policy)).toThrow(
    'type: "x" is not',
  );
  expect(() => check(list({ type: "bridge", bridge: "br7", vlan: 5 }), policy)).not.toThrow();
  for (const key of ["isGateway", "ipMasq", "mtu", "promiscMode"])
    expect(() => check(list({ type: "bridge", [key]: 1 }), policy)).toThrow(
      `plugins[0].${key}: only`,
    );
  expect(() => check(macvlan({}), policy)).toThrow('"macvlan" is not one of sriov, bridge');
});

test("a message names the first problems, and is short whatever a definition has [S-304]", () => {
  const long = "k".repeat(40_000);
  const many = Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`a${i}`, { type: "/" }]));
  const text = macvlan({ [long]: many });
  expect(() => check(text)).toThrow(/^.{100,1700}$/);
});
