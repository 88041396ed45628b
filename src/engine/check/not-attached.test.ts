import { expect, test } from "vitest";
import type { PodState } from "#engine/ports/cluster.ts";
import { statusEntries } from "#npwg/network-status.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import {
  asksForNetworks,
  currentEntries,
  ignoredAnnotation,
  missingNetworks,
  notAttachedGraceMs,
  type PodAttachment,
} from "./not-attached.ts";

const pod: PodState = {
  namespace: "default",
  name: "web",
  uid: "u",
  annotations: { [networksAnnotation]: "red, shared/blue@lan0" },
  hostNetwork: false,
  phase: "Running",
  isTerminating: false,
  podIps: ["10.244.0.7"],
  networkStatus: undefined,
};

const attachment: PodAttachment = {
  isRecorded: false,
  unrecordedForMs: notAttachedGraceMs,
  plexusNamespace: "kube-system",
};

const invalid = { annotations: { [networksAnnotation]: '[{"name":"red"' } };

const statusOf = (ip: string, ...names: string[]): string =>
  JSON.stringify([
    { name: "cbr0", ips: [ip], default: true },
    ...names.map((name) => ({ name, interface: "net1", dns: {} })),
  ]);

test("a running pod without a record lacks every network that it requests", () => {
  expect(missingNetworks(pod, attachment)).toEqual(["default/red", "shared/blue"]);
  const annotations = { [defaultNetworkAnnotation]: "other" };
  expect(missingNetworks({ ...pod, annotations }, attachment)).toEqual(["kube-system/other"]);
});

test.each<[string, Partial<PodState>]>([
  ["is on the host's network", { hostNetwork: true }],
  ["is still starting", { phase: "Pending" }],
  ["has ended", { phase: "Succeeded" }],
  ["is being deleted", { isTerminating: true }],
  ["has no pod IP", { podIps: [] }],
  ["requests no networks", { annotations: {} }],
  ["has an empty annotation", { annotations: { [networksAnnotation]: "[]" } }],
  ["has an invalid annotation", { annotations: { [networksAnnotation]: "[{" } }],
  [
    "was attached by another meta-plugin",
    {
      networkStatus: statusOf("10.244.0.7", "default/red", "shared/blue"),
    },
  ],
])("no network is missing from a pod that %s", (_name, change) => {
  expect(missingNetworks({ ...pod, ...change }, attachment)).toEqual([]);
});

test.each<[string, Partial<PodAttachment>]>([
  ["is recorded", { isRecorded: true }],
  ["has had no record only within the grace period", { unrecordedForMs: notAttachedGraceMs - 1 }],
])("no network is reported for a pod that %s", (_name, change) => {
  expect(missingNetworks(pod, { ...attachment, ...change })).toEqual([]);
});

type Records = Parameters<typeof ignoredAnnotation>[1];
const defaultNetwork = { isDefault: true, selection: { name: "other" } };
const attachedTo = (...networks: Records[number]["attachments"]): Records => [
  { attachments: [defaultNetwork, ...networks] },
];

test.each<[string, Partial<PodState>, Records]>([
  ["was attached to its default network only", {}, attachedTo()],
  ["has a network of the configuration", {}, attachedTo({ isDefault: false })],
  ["started before Plexus", { networkStatus: statusOf("10.244.0.7") }, []],
])("ignoredAnnotation() is the reason if the pod %s", (_name, change, records) => {
  const reason = ignoredAnnotation({ ...pod, ...invalid, ...change }, records, "kube-system");
  expect(reason).toMatch(/^network selection annotation is invalid: /);
});

test.each<[string, Partial<PodState>, Records]>([
  ["got networks before an edit", {}, attachedTo({ isDefault: false, selection: { name: "red" } })],
  ["got some of another meta-plugin", { networkStatus: statusOf("10.244.0.7", "default/red") }, []],
  ["is on the host's network", { hostNetwork: true }, []],
  ["has a valid annotation", { annotations: pod.annotations }, attachedTo()],
])("ignoredAnnotation() is undefined if the pod %s", (_name, change, records) => {
  const changed = { ...pod, ...invalid, ...change };
  expect(ignoredAnnotation(changed, records, "kube-system")).toBeUndefined();
});

test.each([
  ["those of an earlier sandbox", statusOf("10.244.0.3", "default/red", "shared/blue"), 2],
  ["one of them", statusOf("10.244.0.7", "shared/blue"), 1],
  ["only the default network", statusOf("10.244.0.7"), 2],
  ["a network without a name", '[{"ips":["10.244.0.7"]}]', 2],
  ["invalid JSON", "{", 2],
])("missing networks are found although the status has %s", (_name, networkStatus, count) => {
  expect(missingNetworks({ ...pod, networkStatus }, attachment)).toHaveLength(count);
});

test.each<[text: string, entries: unknown[]]>([
  ['[{"name":"a"},null,"b",[],{"name":"c"}]', [{ name: "a" }, { name: "c" }]],
  ['{"name":"a"}', []],
  ["{", []],
  ["", []],
])("statusEntries() of %j are its objects", (text, entries) => {
  expect(statusEntries(text)).toEqual(entries);
});

test.each<[what: string, entries: unknown, isCurrent: boolean]>([
  ["has one of its addresses", [{ ips: ["fd00::9"] }, { ips: ["10.244.0.7", "fd00::7"] }], true],
  ["has only other addresses", [{ ips: ["10.244.0.8"] }], false],
  ["has no addresses", [{ name: "a" }, { ips: "10.244.0.7" }, { ips: [7, null] }], false],
])("a status is of the pod's present sandbox if it %s", (_what, entries, isCurrent) => {
  const networkStatus = JSON.stringify(entries);
  expect(currentEntries({ ...pod, networkStatus })).toEqual(isCurrent ? entries : []);
});

test.each<[annotations: Record<string, string>, asks: boolean]>([
  [{ [networksAnnotation]: "a" }, true],
  [{ [networksAnnotation]: " ", [defaultNetworkAnnotation]: "a" }, true],
  [{ [networksAnnotation]: " \n" }, false],
  [{ [networksAnnotation]: "", [defaultNetworkAnnotation]: " " }, false],
  [{ "example.com/other": "a" }, false],
])("asksForNetworks() of %j: %s", (annotations, asks) => {
  expect(asksForNetworks({ annotations })).toBe(asks);
});
