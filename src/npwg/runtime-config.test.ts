import { describe, expect, test } from "vitest";
import type { CniArgs } from "#cni/args.ts";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { parseNetworkSelections } from "#npwg/selection/selection.ts";
import {
  checkCapabilities,
  requestedCapabilities,
  requestedCniArgs,
  withCniArgs,
} from "./runtime-config.ts";

function requested(keys: object): JsonObject {
  const [selection] = parseNetworkSelections(JSON.stringify([{ name: "a", ...keys }]), {
    podNamespace: "ns",
  });
  return selection === undefined ? {} : requestedCapabilities(selection);
}

function network(...plugins: JsonObject[]): NetConfList {
  return parseNetConfList({ cniVersion: "1.0.0", name: "net", plugins }, { source: "test" });
}

describe("requestedCapabilities()", () => {
  test("is empty when nothing is asked for", () => {
    expect(requested({})).toEqual({});
  });

  test("gives ips as written [N-4.1.2.1.3.2a]", () => {
    expect(requested({ ips: ["10.2.2.42/24", "2001:db8::5/64"] })).toEqual({
      ips: ["10.2.2.42/24", "2001:db8::5/64"],
    });
  });

  test("gives mac [N-4.1.2.1.4.2a]", () => {
    expect(requested({ mac: "02:23:45:67:89:01" })).toEqual({ mac: "02:23:45:67:89:01" });
  });

  test("gives portMappings with protocols in lower case [N-4.1.2.1.7.2a]", () => {
    const portMappings = [
      { hostPort: 8080, containerPort: 80, protocol: "TCP" },
      { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "192.0.2.1" },
    ];
    expect(requested({ portMappings })).toEqual({
      portMappings: [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
        { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "192.0.2.1" },
      ],
    });
  });

  test("gives bandwidth as asked for [N-4.1.2.1.8.2a]", () => {
    const bandwidth = { ingressRate: 2048, ingressBurst: 300, egressRate: 8000, egressBurst: 200 };
    expect(requested({ bandwidth })).toEqual({ bandwidth });
  });

  test.each([
    [1000, 524_288],
    [100_000_000, 10_000_000],
    [10_000_000_001, 1_000_000_001],
    [100_000_000_000, 2_147_483_647],
  ])("gives a rate of %i the burst %i where none is asked for [N-4.1.2.1.8.2c]", (rate, burst) => {
    expect(requested({ bandwidth: { egressRate: rate } })).toEqual({
      bandwidth: { egressRate: rate, egressBurst: burst },
    });
  });

  test("gives Multus' keys", () => {
    const keys = { "infiniband-guid": "c2:11:22:33:44:55:66:77", deviceID: "0000:04:00.5" };
    expect(requested(keys)).toEqual({
      infinibandGUID: "c2:11:22:33:44:55:66:77",
      deviceID: "0000:04:00.5",
    });
  });
});

describe("checkCapabilities()", () => {
  const strict = { undeclaredRequests: "fail", ignoredRequests: "fail" } as const;

  test.each([
    ["ips", { ips: ["10.0.0.1"] }],
    ["mac", { mac: "02:00:00:00:00:01" }],
    ["portMappings", { portMappings: [{ hostPort: 1, containerPort: 1 }] }],
    ["bandwidth", { bandwidth: { ingressRate: 1 } }],
    ["infinibandGUID", { "infiniband-guid": "c2:11:22:33:44:55:66:77" }],
  ])(
    "refuses %s that no plugin can do [S-305] [N-4.1.2.1.3.2b] [N-4.1.2.1.4.2b] [N-4.1.2.1.7.2b] [N-4.1.2.1.8.2b]",
    (key, keys) => {
      const can = { type: "b", capabilities: { [key]: true } };
      expect(() =>
        checkCapabilities(network({ type: "a" }, can), requested(keys), {
          display: "ns/net",
          ...strict,
        }),
      ).not.toThrow();
      for (const capabilities of [{ [key]: false }, { other: true }]) {
        expect(() =>
          checkCapabilities(network({ type: "a", capabilities }), requested(keys), {
            ...{ display: "ns/net", ...strict },
          }),
        ).toThrow(
          expect.objectContaining({
            code: 100,
            message: expect.stringContaining(
              `network "ns/net": no plugin of it has the capability "${key}"`,
            ),
          }),
        );
      }
    },
  );

  test("accepts mac and ips by undeclaredRequests, and all others by ignoredRequests", () => {
    const list = network({ type: "a" });
    const inArgs = { mac: "02:00:00:00:00:01", ips: ["10.0.0.1"] };
    const others = {
      portMappings: [{ hostPort: 1, containerPort: 1 }],
      ...{ bandwidth: { ingressRate: 1 }, "infiniband-guid": "c2:11:22:33:44:55:66:77" },
    };
    const all = requested({ ...inArgs, ...others });
    const check = (rules: object) => () =>
      checkCapabilities(list, all, { display: "n", ...strict, ...rules });
    expect(check({ undeclaredRequests: "cniArgs" })).toThrow(
      'the capability "portMappings", "bandwidth", "infinibandGUID" that',
    );
    expect(check({ ignoredRequests: "warn" })).toThrow('the capability "ips", "mac" that');
    expect(check({ undeclaredRequests: "cniArgs", ignoredRequests: "warn" })).not.toThrow();
  });

  test("names every key and leaves deviceID to the plugins", () => {
    const keys = { mac: "02:00:00:00:00:01", ips: ["10.0.0.1"], deviceID: "x" };
    expect(() =>
      checkCapabilities(network({ type: "a" }), requested(keys), { display: "n", ...strict }),
    ).toThrow('the capability "ips", "mac" that');
    expect(() =>
      checkCapabilities(network({ type: "a" }), requested({ deviceID: "x" }), {
        ...{ display: "n", ...strict },
      }),
    ).not.toThrow();
  });
});

describe("requestedCniArgs()", () => {
  const argsOf = (keys: object, ...capabilities: string[]): CniArgs => {
    const declared = Object.fromEntries(capabilities.map((key) => [key, true]));
    return argsFrom(network({ type: "a", capabilities: declared }), keys);
  };
  const argsFrom = (list: NetConfList, keys: object): CniArgs => {
    const text = JSON.stringify([{ name: "a", ...keys }]);
    const [selection] = parseNetworkSelections(text, { podNamespace: "ns" });
    return selection === undefined ? [] : requestedCniArgs(selection, list);
  };

  test("gives mac and ips, whether they are declared or not (multus.md §1.5, §2.1 8d)", () => {
    const keys = { mac: "02:00:00:00:00:0A", ips: ["10.0.0.1/24"] };
    const wanted = [
      ["MAC", "02:00:00:00:00:0a"],
      ["IP", "10.0.0.1/24"],
    ];
    expect(argsOf(keys)).toEqual(wanted);
    expect(argsOf(keys, "ips", "mac")).toEqual(wanted);
    expect(argsOf({ deviceID: "x" })).toEqual([]);
  });

  test.each([
    ["host-local", false],
    ["calico-ipam", false],
    ["spiderpool", false],
    ["whereabouts", true],
    ["static", true],
    ["dhcp", true],
    [undefined, true],
  ])("gives several ips to the IPAM plugin %s as a list: %j", (type, isGiven) => {
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
  test("adds args.cni to every plugin [N-4.1.2.1.6.2a]", () => {
    const list = withCniArgs(network({ type: "a" }, { type: "b", args: { other: 1 } }), {
      spoofchk: "on",
    });
    expect(list.plugins.map(({ raw }) => raw.args)).toEqual([
      { cni: { spoofchk: "on" } },
      { other: 1, cni: { spoofchk: "on" } },
    ]);
    expect(list.raw.plugins).toEqual(list.plugins.map(({ raw }) => raw));
  });

  test("lets the annotation win over the definition's own args [N-4.1.2.1.6.2b]", () => {
    const original = network({ type: "a", args: { cni: { spoofchk: "off", trust: "on" } } });
    const list = withCniArgs(original, { spoofchk: "on" });
    expect(list.plugins[0]?.raw.args).toEqual({ cni: { spoofchk: "on", trust: "on" } });
    expect(original.plugins[0]?.raw.args).toEqual({ cni: { spoofchk: "off", trust: "on" } });
  });

  test("leaves the list alone without cni-args and refuses args that are no object", () => {
    const list = network({ type: "a", args: [1] });
    expect(withCniArgs(list, undefined)).toBe(list);
    expect(() => withCniArgs(list, {})).toThrow(
      'network "net": plugins[0]: args: must be an object, got [1]',
    );
    const inner = network({ type: "a", args: { cni: "x" } });
    expect(() => withCniArgs(inner, {})).toThrow(
      'plugins[0]: args.cni: must be an object, got "x"',
    );
  });
});
