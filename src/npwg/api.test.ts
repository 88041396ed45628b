import { expect, test } from "vitest";
import {
  FormatError,
  formatNetworks,
  type Problem,
  parseDefinition,
  parseNetworkConfiguration,
  parseNetworkStatus,
  parseNetworks,
  parseResult,
} from "./api.ts";

const inShop = { namespace: "shop" };

test("parseNetworks() reads both forms, with the keys of the standard", () => {
  expect(parseNetworks("storage, infra/lab@lab0", inShop)).toEqual([
    { namespace: "shop", name: "storage" },
    { namespace: "infra", name: "lab", interface: "lab0" },
  ]);
  const element = {
    ...{ namespace: "infra", name: "lab", interface: "lab0", ips: ["10.0.0.2/24"] },
    ...{ mac: "02:00:00:00:00:01", "infiniband-guid": "02:00:00:00:00:00:00:01" },
    portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp" as const }],
    bandwidth: { ingressRate: 1000, ingressBurst: 2000 },
    ...{ "cni-args": { "a.example/b": [1, null] }, "default-route": ["10.0.0.1"] },
    ...{ deviceID: "0000:3b:02.1", "ipam-claim-reference": "claim" },
    "dev.plexus.resourceClaim": { claim: "nic" },
  };
  expect(parseNetworks(JSON.stringify([element]), inShop)).toEqual([element]);
  expect(parseNetworks(formatNetworks([element]), inShop)).toEqual([element]);
});

test.each<[call: (...args: unknown[]) => unknown, args: unknown[], message: string]>([
  [
    parseNetworks as never,
    [undefined, inShop],
    "parseNetworks: annotation must be a string, got undefined",
  ],
  [
    parseNetworks as never,
    ["red"],
    "parseNetworks: options.namespace must be a string, got undefined",
  ],
  [
    parseNetworkStatus as never,
    [],
    "parseNetworkStatus: annotation must be a string, got undefined",
  ],
  [formatNetworks as never, [], "formatNetworks: networks is missing"],
])("a missing argument is named: %#", (call, args, message) => {
  expect(() => call(...args)).toThrow(new TypeError(message));
});

test.each([parseDefinition, parseNetworkConfiguration, parseResult])(
  "%o of nothing is a FormatError",
  (parse) => {
    expect(() => parse(undefined)).toThrow(FormatError);
  },
);

test("parseNetworks() tells what it ignores", () => {
  const warnings: string[] = [];
  const onWarning = (warning: string) => void warnings.push(warning);
  parseNetworks('[{"name": "storage", "ip": "10.0.0.2"}]', { ...inShop, onWarning });
  expect(warnings).toEqual([
    'network selection annotation: element 1, key "ip": unknown key, ignored, its value being "10.0.0.2"; did you mean ips?',
  ]);
});

const definition = (spec: object, metadata: object = {}) => ({
  ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition", spec },
  metadata: { name: "lab", namespace: "infra", ...metadata },
});

test("parseDefinition() reads manifests and objects of the API server", () => {
  const config = '{"cniVersion": "1.0.0", "type": "bridge", "mtu": 9000}';
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
  const plugins = [{ type: "bridge", mtu: 9000 }];
  const expected = {
    ...{ namespace: "infra", name: "lab", resourceName: "vendor.example/vf" },
    configuration: {
      name: "lab",
      cniVersion: "1.0.0",
      plugins: [expect.objectContaining(plugins[0])],
    },
  };
  expect(parseDefinition(definition({ config }, { annotations }))).toEqual(expected);
  const { apiVersion: _, ...listed } = definition(
    { config },
    { annotations, resourceVersion: "7" },
  );
  expect(parseDefinition({ ...listed, status: {} })).toEqual(expected);
  expect(parseDefinition(definition({}))).toEqual({ namespace: "infra", name: "lab" });
});

test("parseNetworkStatus() reads what Plexus and Multus write", () => {
  const element = { name: "shop/storage", interface: "net1", mac: "02:00:00:00:00:01", mtu: 1500 };
  const device = { "device-info": { type: "pci" }, gateway: ["10.0.0.1"], ips: ["10.0.0.2"] };
  const status = JSON.stringify([
    { ...element, ...device, default: true, dns: { domain: "x" } },
    { name: "b" },
  ]);
  expect(parseNetworkStatus(status)).toEqual([
    { ...element, ...device, default: true, dns: { domain: "x" } },
    { name: "b", ips: [], gateway: [], default: false, dns: {} },
  ]);
  expect(parseNetworkStatus(" ")).toEqual([]);
});

test("parseResult() reads results of any version", () => {
  const ip4 = { ip: "10.0.0.2/24", gateway: "10.0.0.1" };
  expect(parseResult({ cniVersion: "0.2.0", ip4 })).toMatchObject({
    ips: [{ address: "10.0.0.2/24", gateway: "10.0.0.1" }],
  });
  expect(parseResult('{"cniVersion": "1.1.0", "interfaces": [{"name": "eth0"}]}')).toMatchObject({
    interfaces: [{ name: "eth0" }],
  });
});

test.each<[what: string, read: () => unknown, problem: Partial<Problem>]>([
  [
    "a wrong value of an element",
    () => parseNetworks('["a", {"name": "b", "mac": "zz"}]', inShop),
    { element: 1, key: "" },
  ],
  [
    "a network that cannot be written",
    () => formatNetworks([{ namespace: "x", name: "A" }]),
    { element: 1, key: "name" },
  ],
  ["a definition without config's name", () => parseNetworkConfiguration({ type: "a" }), {}],
  ["another object", () => parseDefinition({ ...definition({}), kind: "Pod" }), {}],
  ["a text", () => parseDefinition("text"), {}],
  ["a status that is no list", () => parseNetworkStatus("{}"), {}],
  ["a status that is no JSON", () => parseNetworkStatus("["), {}],
  ["a status without names", () => parseNetworkStatus("[{}]"), {}],
  [
    "a result with a wrong address",
    () => parseResult({ cniVersion: "1.0.0", ips: [{ address: "x" }] }),
    {},
  ],
])("%s is a FormatError with its problems", (_, read, problem) => {
  expect(read).toThrow(FormatError);
  const [first] = (() => {
    try {
      read();
    } catch (error) {
      return (error as FormatError).problems;
    }
    return [];
  })();
  expect(first).toMatchObject({ element: 0, ...problem, reason: expect.stringMatching(/./) });
});
