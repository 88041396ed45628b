import { describe, expect, test } from "vitest";
import type { CniArgs } from "#cni/args.ts";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";
import { parseNetworkSelections } from "#npwg/selection/selection.ts";
import {
  checkCapabilities,
  checkClaimReference,
  requestedCapabilities,
  requestedCniArgs,
  withCniArgs,
} from "./runtime-config.ts";

function selected(keys: object): NetworkSelection {
  const text = JSON.stringify([{ name: "a", ...keys }]);
  const [selection] = parseNetworkSelections(text, { podNamespace: "ns" });
  if (selection === undefined) throw new Error("no selection");
  return selection;
}

const requested = (keys: object): JsonObject => requestedCapabilities(selected(keys));

function network(...plugins: JsonObject[]): NetConfList {
  return parseNetConfList({ cniVersion: "1.0.0", name: "net", plugins }, { source: "test" });
}

const guid = "c2:11:22:33:44:55:66:77";
const bandwidth = { ingressRate: 2048, ingressBurst: 300, egressRate: 8000, egressBurst: 200 };
const udp = { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "192.0.2.1" };

describe("requestedCapabilities()", () => {
  test.each<[what: string, keys: object, capabilities: object]>([
    ["nothing", {}, {}],
    ["ips", { ips: ["10.2.2.42/24", "fd00::5"] }, { ips: ["10.2.2.42/24", "fd00::5"] }],
    ["mac", { mac: "02:00:00:00:00:01" }, { mac: "02:00:00:00:00:01" }],
    [
      "protocols in lower case",
      { portMappings: [udp] },
      { portMappings: [{ ...udp, protocol: "udp" }] },
    ],
    ["bandwidth", { bandwidth }, { bandwidth }],
    [
      "Multus's keys",
      { "infiniband-guid": guid, deviceID: "0000:04:00.5" },
      { infinibandGUID: guid, deviceID: "0000:04:00.5" },
    ],
  ])(
    "returns %s as requested [N-4.1.2.1.3.2a] [N-4.1.2.1.4.2a] [N-4.1.2.1.7.2a] [N-4.1.2.1.8.2a]",
    (_, keys, capabilities) => {
      expect(requested(keys)).toEqual(capabilities);
    },
  );

  test.each([
    [1000, 524_288],
    [100_000_000, 10_000_000],
    [10_000_000_001, 1_000_000_001],
    [100_000_000_000, 2_147_483_647],
  ])("gives a rate of %i the default burst %i [N-4.1.2.1.8.2c]", (rate, burst) => {
    expect(requested({ bandwidth: { egressRate: rate } })).toEqual({
      bandwidth: { egressRate: rate, egressBurst: burst },
    });
  });
});

describe("checkCapabilities()", () => {
  const portMappings = [{ hostPort: 1, containerPort: 1 }];
  const inArgs = { mac: "02:00:00:00:00:01", ips: ["10.0.0.1"] };
  const others = { portMappings, bandwidth, "infiniband-guid": guid };
  const missing = (...keys: string[]): string =>
    `network "ns/net": no plugin of it has the capability ${keys.map((key) => `"${key}"`).join(", ")} that`;

  test.each([
    ["ips", { ips: ["10.0.0.1"] }],
    ["mac", { mac: "02:00:00:00:00:01" }],
    ["portMappings", { portMappings }],
    ["bandwidth", { bandwidth }],
    ["infinibandGUID", { "infiniband-guid": guid }],
  ])(
    "rejects %s if no plugin declares the capability [S-305] [N-4.1.2.1.3.2b] [N-4.1.2.1.4.2b] [N-4.1.2.1.7.2b] [N-4.1.2.1.8.2b]",
    (key, keys) => {
      const check = (capabilities: JsonObject) => () =>
        checkCapabilities(
          network({ type: "a" }, { type: "b", capabilities }),
          requested(keys),
          "ns/net",
        );
      expect(check({ [key]: true })).not.toThrow();
      for (const capabilities of [{ [key]: false }, { other: true }]) {
        const error = { code: 100, message: expect.stringContaining(missing(key)) };
        expect(check(capabilities)).toThrow(expect.objectContaining(error));
      }
    },
  );

  test.each<[keys: object, refused: string[]]>([
    [{ ...inArgs, ...others }, ["ips", "mac", "portMappings", "bandwidth", "infinibandGUID"]],
    [{ ...inArgs, deviceID: "x" }, ["ips", "mac"]],
    [{ deviceID: "x" }, []],
  ])("checks %j and rejects %j", (keys, refused) => {
    const check = () => checkCapabilities(network({ type: "a" }), requested(keys), "ns/net");
    if (refused.length === 0) expect(check).not.toThrow();
    else expect(check).toThrow(missing(...refused));
  });
});

describe("requestedCniArgs()", () => {
  const argsFrom = (list: NetConfList, keys: object): CniArgs =>
    requestedCniArgs(selected(keys), list);

  test("passes mac and ips, whether or not their capability is declared (multus.md §1.5, §2.1 8d)", () => {
    const keys = { mac: "02:00:00:00:00:0A", ips: ["10.0.0.1/24"] };
    for (const capabilities of [{}, { ips: true, mac: true }]) {
      expect(argsFrom(network({ type: "a", capabilities }), keys)).toEqual([
        ["MAC", "02:00:00:00:00:0a"],
        ["IP", "10.0.0.1/24"],
      ]);
    }
    expect(argsFrom(network({ type: "a" }), { deviceID: "x" })).toEqual([]);
  });

  test.each([
    ["host-local", false],
    ["calico-ipam", false],
    ["spiderpool", false],
    ["whereabouts", true],
    ["static", true],
    ["dhcp", true],
    [undefined, true],
  ])("passes several ips to the IPAM plugin %s: %j", (type, isGiven) => {
    const ipam = type === undefined ? {} : { ipam: { type } };
    for (const capabilities of [{}, { ips: true }]) {
      const list = network({ type: "a", capabilities, ...ipam }, { type: "tuning" });
      const [one, two] = ["10.0.0.1/24", "fd00::1/64"];
      expect(argsFrom(list, { ips: [one] })).toEqual([["IP", one]]);
      expect(argsFrom(list, { ips: [one, two] })).toEqual(isGiven ? [["IP", `${one},${two}`]] : []);
    }
  });
});

describe("withCniArgs()", () => {
  const withArgs = (list: NetConfList, keys: object) => withCniArgs(list, selected(keys));
  const asking = { "cni-args": { spoofchk: "on" } };
  const key = "ipam-claim-reference";

  test("adds args.cni to every plugin [N-4.1.2.1.6.2a]", () => {
    const list = withArgs(network({ type: "a" }, { type: "b", args: { other: 1 } }), asking);
    expect(list.plugins.map(({ raw }) => raw.args)).toEqual([
      { cni: { spoofchk: "on" } },
      { other: 1, cni: { spoofchk: "on" } },
    ]);
  });

  test("lets the annotation override the definition's args [N-4.1.2.1.6.2b]", () => {
    const original = network({ type: "a", args: { cni: { spoofchk: "off", trust: "on" } } });
    const list = withArgs(original, asking);
    expect(list.plugins[0]?.raw.args).toEqual({ cni: { spoofchk: "on", trust: "on" } });
    expect(original.plugins[0]?.raw.args).toEqual({ cni: { spoofchk: "off", trust: "on" } });
  });

  test.each([
    ["alone", { [key]: "vm.net" }, { trust: "on", [key]: "vm.net" }],
    [
      "beside cni-args, which it overrides",
      { "cni-args": { x: 1, [key]: "other" }, [key]: "vm.net" },
      { trust: "on", x: 1, [key]: "vm.net" },
    ],
    [
      "in cni-args, which also reach plugins",
      { "cni-args": { [key]: "vm.net" } },
      { trust: "on", [key]: "vm.net" },
    ],
  ])("adds the name of an IPAMClaim %s", (_, keys, cni) => {
    const own = { type: "a", args: { cni: { trust: "on", [key]: "of-definition" } } };
    expect(withArgs(network(own), keys).plugins[0]?.raw.args).toEqual({ cni });
  });

  test("returns the same list without cni-args, and rejects args that are not an object", () => {
    const list = network({ type: "a", args: [1] });
    expect(withArgs(list, {})).toBe(list);
    expect(() => withArgs(list, asking)).toThrow(
      'network "net": plugins[0]: args: must be an object, got [1]',
    );
    const inner = network({ type: "a", args: { cni: "x" } });
    expect(() => withArgs(inner, { [key]: "vm.net" })).toThrow(
      'plugins[0]: args.cni: must be an object, got "x"',
    );
  });
});

describe("checkClaimReference()", () => {
  const check = (claim: string) => () =>
    checkClaimReference(selected({ "ipam-claim-reference": claim }), "ns/net");

  test.each(["", "claim", "vm-1.tenantred.pod16367aacb67", "a".repeat(253)])(
    "accepts %j",
    (claim) => expect(check(claim)).not.toThrow(),
  );

  test.each(["vm_1", "VM", "ns/claim", "../claim", ".", "a..b", "a b"])("rejects %j", (claim) => {
    const message = `network "ns/net": key "ipam-claim-reference": must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'), got ${JSON.stringify(claim)}`;
    expect(check(claim)).toThrow(expect.objectContaining({ code: 100, message }));
  });

  test.each(["../claim", 1])("rejects %j also in cni-args, where plugins find it", (claim) => {
    const cniArgs = { "ipam-claim-reference": claim };
    expect(() => checkClaimReference(selected({ "cni-args": cniArgs }), "ns/net")).toThrow(
      'key "ipam-claim-reference": must be a ',
    );
  });
});
