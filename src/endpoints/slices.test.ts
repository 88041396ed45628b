import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { type NetworkPod, networkPodOf, networkServiceOf } from "./objects.ts";
import { slicesOf } from "./slices.ts";
import { networkPod, networkService } from "./testing/objects.ts";

function pod(name: string, ips: readonly string[], changes: JsonObject = {}): NetworkPod {
  const read = networkPodOf({ ...networkPod(name, ips), ...changes });
  if (read === undefined) throw new Error(`${name} can be no endpoint`);
  return read;
}

/** The slices of the Service `db` with these pods. */
function slices(pods: readonly NetworkPod[], spec: JsonObject = {}, annotations: JsonObject = {}) {
  const service = networkServiceOf(networkService("db", { spec, annotations }));
  if (service === undefined) throw new Error("the Service has no annotations");
  return slicesOf(service, pods);
}

const addresses = (made: ReturnType<typeof slices>): unknown[] =>
  made.flatMap(({ endpoints }) => endpoints).flatMap((each) => each.addresses);

test("there is a slice of each family, with the addresses of the network", () => {
  const made = slices([pod("a", ["10.1.0.2", "fd00::2"]), pod("b", ["10.1.0.1", "fd00::1"])]);
  expect(made.map((each) => [each.addressType, addresses([each])])).toEqual([
    ["IPv4", ["10.1.0.1", "10.1.0.2"]],
    ["IPv6", ["fd00::1", "fd00::2"]],
  ]);
  expect(made[0]).toEqual({
    addressType: "IPv4",
    metadata: {
      namespace: "default",
      name: expect.stringMatching(/^db-plexus-[0-9a-f]+$/),
      labels: {
        "endpointslice.kubernetes.io/managed-by": "plexus.dev",
        "kubernetes.io/service-name": "db",
      },
      ownerReferences: [
        { apiVersion: "v1", kind: "Service", name: "db", uid: "uid-of-db", controller: true },
      ],
    },
    ports: [{ name: "sql", protocol: "TCP", port: 5432 }],
    endpoints: ["b", "a"].map((name) => ({
      addresses: [name === "b" ? "10.1.0.1" : "10.1.0.2"],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: "node-1",
      targetRef: { kind: "Pod", namespace: "default", name, uid: `uid-of-${name}` },
    })),
  });
});

test("a pod that is on the network twice is two endpoints; on another network it is none", () => {
  const entry = (name: string, ip: string) => ({ name, ips: [ip], default: false, dns: {} });
  const status = [entry("default/red", "10.1.0.1"), entry("default/red", "10.1.0.2")];
  const twice = pod(
    "a",
    [],
    networkPod("a", [], { status: [...status, entry("x/red", "10.9.0.1")] }),
  );
  expect(addresses(slices([twice]))).toEqual(["10.1.0.1", "10.1.0.2"]);
  expect(slices([twice], {}, { "plexus.dev/network": "default/blue" })).toEqual([]);
});

test.each([
  "fe80::1",
  "169.254.0.1",
  "127.0.0.1",
  "::1",
  "0.0.0.0",
  "224.0.0.1",
  "x",
  "10.1.0.1/24",
])("%s in network-status is no endpoint: the API server would refuse the whole slice", (ip) => {
  expect(addresses(slices([pod("a", ["10.1.0.1", ip])]))).toEqual(["10.1.0.1"]);
});

test("only pods with all labels are endpoints", () => {
  const labelled = (name: string, labels: JsonObject) =>
    pod(name, [`10.1.0.${name}`], networkPod(name, [`10.1.0.${name}`], { labels }));
  const pods = [
    labelled("1", { app: "db", tier: "x" }),
    labelled("2", { app: "db" }),
    labelled("3", { app: "web", tier: "x" }),
  ];
  const selector = { "plexus.dev/selector": "app=db,tier=x" };
  expect(addresses(slices(pods, {}, selector))).toEqual(["10.1.0.1"]);
});

test("a pod that is not ready, or ends, is an endpoint only with publishNotReadyAddresses", () => {
  const unready = pod("a", [], networkPod("a", ["10.1.0.1"], { isReady: false }));
  const ending = pod("b", [], networkPod("b", ["10.1.0.2"], { deletionTimestamp: "2026-01-01" }));
  expect(slices([unready, ending])).toEqual([]);
  const published = slices([unready, ending], { publishNotReadyAddresses: true });
  expect(addresses(published)).toEqual(["10.1.0.1", "10.1.0.2"]);
  expect(published[0]?.endpoints.map(({ conditions }) => conditions)).toEqual([
    { ready: true, serving: false, terminating: false },
    { ready: true, serving: true, terminating: true },
  ]);
});

test("a Service of one family has endpoints of that family only", () => {
  const both = pod("a", ["10.1.0.1", "fd00::1"]);
  expect(addresses(slices([both], { ipFamilies: ["IPv6"] }))).toEqual(["fd00::1"]);
  expect(addresses(slices([both], { ipFamilies: ["IPv6", "IPv4"] }))).toHaveLength(2);
});

test.each(["Succeeded", "Failed"])("a pod in phase %s is no endpoint", (phase) => {
  expect(networkPodOf(networkPod("a", ["10.1.0.1"], { phase }))).toBeUndefined();
});

test("ports are numbers, or names of the containers' ports with the same protocol", () => {
  const ports = [
    { name: "sql", port: 1, targetPort: "sql", protocol: "TCP" },
    { name: "dns", port: 2, targetPort: "dns", protocol: "UDP", appProtocol: "x" },
    { name: "http", port: 80, targetPort: 8080, protocol: "TCP" },
    { name: "same", port: 90, protocol: "TCP" },
    { name: "none", port: 3, targetPort: "none", protocol: "TCP" },
  ];
  const own = [
    { name: "sql", containerPort: 5432, protocol: "TCP" },
    { name: "dns", containerPort: 5300, protocol: "TCP" },
    { name: "dns", containerPort: 5353, protocol: "UDP" },
  ];
  const made = slices([pod("a", [], networkPod("a", ["10.1.0.1"], { ports: own }))], { ports });
  expect(made.map((each) => each.ports)).toEqual([
    [
      { name: "sql", protocol: "TCP", port: 5432 },
      { name: "dns", protocol: "UDP", appProtocol: "x", port: 5353 },
      { name: "http", protocol: "TCP", port: 8080 },
      { name: "same", protocol: "TCP", port: 90 },
    ],
  ]);
});

test("of init containers, only a sidecar has ports", () => {
  const ports = [{ name: "sql", port: 1, targetPort: "sql", protocol: "TCP" }];
  const init = (more: JsonObject) => {
    const containers = { containers: [], initContainers: [{ ports: own, ...more }] };
    return pod("a", ["10.1.0.1"], { spec: containers });
  };
  const own = [{ name: "sql", containerPort: 5432, protocol: "TCP" }];
  const portsOf = (each: NetworkPod) => slices([each], { ports })[0]?.ports;
  expect(portsOf(init({ restartPolicy: "Always" }))).toMatchObject([{ port: 5432 }]);
  expect(portsOf(init({}))).toEqual([]);
});

test("pods whose named port has another number are in another slice", () => {
  const at = (name: string, containerPort: number) =>
    pod(
      name,
      [],
      networkPod(name, [`10.1.0.${name}`], {
        ports: [{ name: "sql", containerPort, protocol: "TCP" }],
      }),
    );
  const ports = [{ name: "sql", port: 5432, targetPort: "sql", protocol: "TCP" }];
  const made = slices([at("1", 5432), at("2", 5433), at("3", 5432)], { ports });
  expect(made.map((each) => [each.ports?.[0]?.port, addresses([each])])).toEqual([
    [5432, ["10.1.0.1", "10.1.0.3"]],
    [5433, ["10.1.0.2"]],
  ]);
  expect(new Set(made.map(({ metadata }) => metadata.name)).size).toBe(2);
});

test("a headless Service may have no ports, and names for its pods", () => {
  const named = pod("a", [], networkPod("a", ["10.1.0.1"], { hostname: "db-0", subdomain: "db" }));
  const other = pod("b", [], networkPod("b", ["10.1.0.2"], { hostname: "x-0", subdomain: "x" }));
  const [made] = slices([named, other], { clusterIP: "None", ports: null });
  expect(made?.ports).toEqual([]);
  expect(made?.metadata.labels).toHaveProperty(["service.kubernetes.io/headless"], "");
  expect(made?.endpoints.map((each) => each.hostname)).toEqual(["db-0", undefined]);
});

test.each([
  [700, 1],
  [701, 2],
  [5000, 8],
])("of %i endpoints, a slice has at most 1000; one that goes changes one of %i", (count, parts) => {
  const pods = Array.from({ length: count }, (_, i) => pod(`${i}`, [`10.1.${i >> 8}.${i & 255}`]));
  const made = slices(pods);
  expect(made).toHaveLength(parts);
  expect(Math.max(...made.map(({ endpoints }) => endpoints.length))).toBeLessThanOrEqual(1000);
  expect(addresses(made)).toHaveLength(count);
  const texts = new Set(made.map((each) => JSON.stringify(each)));
  const without = slices(pods.slice(1)).map((each) => JSON.stringify(each));
  expect(without.filter((each) => !texts.has(each))).toHaveLength(1);
});

test("of a pod, 16 addresses of a network count, each once, in an order that is always the same", () => {
  const many = Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
  const entry = (ips: readonly string[]) => ({ name: "default/red", ips });
  const status = [entry(["10.1.0.0", "10.1.0.0"]), entry(many)];
  const own = pod("a", [], networkPod("a", [], { status }));
  expect(addresses(slices([own])).toSorted()).toEqual(many.slice(0, 16).toSorted());
  const same = [pod("a", ["10.1.0.1"]), pod("b", ["10.1.0.1"])];
  expect(slices(same)).toEqual(slices(same.toReversed()));
});

test("slices of a headless Service are others than those of one that has an address", () => {
  const pods = [pod("a", ["10.1.0.1"])];
  const [headless, other] = [slices(pods, { clusterIP: "None" }), slices(pods)];
  expect(headless[0]?.metadata.labels).toHaveProperty(["service.kubernetes.io/headless"], "");
  expect(headless[0]?.metadata.name).not.toBe(other[0]?.metadata.name);
});

test("at most 16 labels select pods", () => {
  const selector = (count: number) => ({ "plexus.dev/selector": Array(count).fill("a=b").join() });
  const problemOf = (count: number) =>
    networkServiceOf(networkService("db", { annotations: selector(count) }))?.problem;
  expect(problemOf(16)).toBeUndefined();
  expect(problemOf(17)).toMatch(/must be LABEL=VALUE, up to 16 with commas/);
});

test.each([
  [{ "plexus.dev/network": "red" }, 'plexus.dev/network must be NAMESPACE/NAME, got "red"'],
  [{ "plexus.dev/network": "a/b/c" }, 'plexus.dev/network must be NAMESPACE/NAME, got "a/b/c"'],
  [{ "plexus.dev/network": "" }, 'plexus.dev/network must be NAMESPACE/NAME, got ""'],
  [
    { "plexus.dev/selector": undefined },
    'plexus.dev/selector must be LABEL=VALUE, up to 16 with commas, got ""',
  ],
  ...["app", "app=db,", "", " app=db", "app==db", "app in (db)", "!app", "app=db;x=y"].map(
    (text): [JsonObject, string] => [
      { "plexus.dev/selector": text },
      `plexus.dev/selector must be LABEL=VALUE, up to 16 with commas, got ${JSON.stringify(text)}`,
    ],
  ),
] as [JsonObject, string][])("%j is a problem", (annotations, problem) => {
  expect(networkServiceOf(networkService("db", { annotations }))?.problem).toBe(problem);
});

test("spec.selector is a problem; a Service without the annotation is not read", () => {
  const own = networkService("db", { spec: { selector: { app: "db" } } });
  expect(networkServiceOf(own)?.problem).toMatch(
    /^create the Service again without spec\.selector.*app/,
  );
  expect(networkServiceOf({ metadata: { namespace: "a", name: "b" } })).toBeUndefined();
  expect(networkServiceOf(networkService("db"))?.problem).toBeUndefined();
});
