import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { checkAttachmentPolicy, restrictedPlugins } from "./attachment-policy.ts";

const restricted = { rule: "attachmentPolicy", plugins: restrictedPlugins };

/** Checks the text of a definition. */
function check(text: string, policy = restricted): void {
  const list = parseNetConfList(JSON.parse(text), { source: "spec.config", name: "net" });
  checkAttachmentPolicy(list, text, policy);
}

const list = (...plugins: JsonObject[]): string =>
  JSON.stringify({ cniVersion: "1.0.0", name: "net", plugins });
const macvlan = (keys: JsonObject): string => list({ type: "macvlan", master: "eth1", ...keys });

test.each([
  macvlan({ ipam: { type: "host-local", subnet: "10.1.0.0/16", routes: [{ dst: "0.0.0.0/0" }] } }),
  macvlan({ ipam: { type: "whereabouts", range: "2001:db8::/64", exclude: ["2001:db8::/80"] } }),
  macvlan({ ipam: { type: "static", addresses: [{ address: "10.1.0.4/16" }] } }),
  macvlan({ ipam: { type: "dhcp" }, capabilities: { ips: true, mac: true } }),
  list(
    { type: "bridge", bridge: "br7", ipam: {} },
    { type: "tuning", sysctl: { "net.core.a": "1" } },
  ),
  list({ type: "bridge" }, { type: "tuning", sysctl: { "net/ipv4/conf/IFNAME/rp_filter": "0" } }),
  list({ type: "vlan", master: "bond0", vlanId: 5, dns: { nameservers: ["10.1.0.1"] } }),
  list({ type: "bridge", isGateway: false, ipMasq: false, deviceID: "" }),
  macvlan({ mode: "bridge" }),
  '{"type":"vlan"}',
])("restricted permits %s", (text) => {
  expect(() => check(text)).not.toThrow();
});

test.each<[text: string, problem: string]>([
  [list({ type: "host-device" }), 'plugins[0].type: "host-device" is not one of bandwidth, bridge'],
  [list({ type: "bridge" }, { type: "portmap" }), 'plugins[1].type: "portmap" is not one of'],
  [macvlan({ ipam: { type: "evil" } }), 'plugins[0].ipam.type: "evil" is not one of'],
  [macvlan({ delegate: { type: "evil" } }), 'plugins[0].delegate.type: "evil" is not one of'],
  [macvlan({ x: [{ type: ["static"] }] }), 'plugins[0].x[0].type: ["static"] is not one of'],
  [macvlan({ ipam: { type: "static", Type: "evil" } }), 'the key "Type" occurs twice in an object'],
  ['{"type":"evil","TYPE":"macvlan"}', 'the key "TYPE" occurs twice in an object'],
  ['{"type":"macvlan","ipam":{"\\u0074ype":"evil"}}', 'plugins[0].ipam.type: "evil"'],
  ['{"type":"macvlan","ipam":{"type":"static","type":"dhcp"}}', 'the key "type" occurs twice'],
  ['{"Type":"macvlan"}', 'the key "Type" must be spelled "type"'],
  [macvlan({ Ipam: { type: "static" } }), 'the key "Ipam" must be spelled "ipam"'],
  [list({ type: "tuning", ſysctl: { "kernel.core_pattern": "x" } }), 'must be spelled "sysctl"'],
  [list({ type: "tuning", ſysctl: { "kernel.core_pattern": "x" } }), "is not below net"],
  [list({ type: "tuning", sysctl: { "net.ipv4/../../kernel/a": "1" } }), "is not below net"],
  [
    list({ type: "tuning", sysctl: { "vm.swappiness": "1" } }),
    'sysctl: "vm.swappiness" is not below net',
  ],
  [
    macvlan({ ipam: { type: "host-local", dataDir: "/etc" } }),
    'ipam.dataDir: "/etc" is a path on the node',
  ],
  [macvlan({ ipam: { type: "host-local", resolvConf: " /etc/shadow" } }), "resolvConf"],
  [macvlan({ ipam: { type: "dhcp", daemonSocketPath: "unix:///run/x" } }), "daemonSocketPath"],
  [macvlan({ ipam: { type: "whereabouts", log_file: "x/../../etc/cron.d/x" } }), "log_file"],
  [macvlan({ logs: ["../x"] }), 'plugins[0].logs[0]: "../x" is a path on the node'],
  [macvlan({ args: { cni: { dir: "~/x" } } }), 'plugins[0].args.cni.dir: "~/x"'],
  [
    macvlan({ runtimeConfig: { deviceID: "0000:03:02.1" } }),
    "runtimeConfig.deviceID takes a device of the node",
  ],
  [list({ type: "bridge", isGateway: true }), "isGateway takes a device of the node or changes it"],
  [list({ type: "bridge", ipMasq: "yes" }), "plugins[0].ipMasq takes"],
  [list({ type: "ptp" }), '"ptp" is not one of'],
  [macvlan({ mode: "passthru" }), 'plugins[0].mode: "passthru" takes a link of the node'],
  [macvlan({ Mode: "passthru" }), 'the key "Mode" must be spelled "mode"'],
  [macvlan({ PCIBUSID: "0000:03:02.1" }), 'the key "PCIBUSID" must be spelled "pciBusID"'],
])("restricted does not permit %s [S-404]", (text, problem) => {
  const message = expect.stringContaining(problem);
  const named = expect.stringMatching(/^attachmentPolicy does not permit this definition: /);
  expect(() => check(text)).toThrow(expect.objectContaining({ code: 101, message }));
  expect(() => check(text)).toThrow(expect.objectContaining({ message: named }));
});

test("a list of types replaces those of restricted, and nothing else of it", () => {
  const sriov = { rule: "attachmentPolicy", plugins: ["sriov", "host-local"] };
  const text = (keys: JsonObject): string =>
    list({ type: "sriov", ipam: { type: "host-local" }, ...keys });
  expect(() => check(text({ vlan: 5 }), sriov)).not.toThrow();
  expect(() => check(text({ deviceID: "0000:03:02.1" }), sriov)).toThrow("takes a device");
  expect(() => check(macvlan({}), sriov)).toThrow('"macvlan" is not one of sriov, host-local');
});

test("a message names at most five problems", () => {
  const paths = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`path${i}`, "/etc"]));
  expect(() => check(macvlan(paths))).toThrow(/path4: "\/etc" is a path on the node$/);
});
