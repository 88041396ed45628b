import { expect, test } from "vitest";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import {
  missingNetworks,
  notAttachedGraceMs,
  type PodAttachment,
  type PodState,
} from "./not-attached.ts";

const pod: PodState = {
  namespace: "default",
  name: "web",
  uid: "u",
  annotations: { [networksAnnotation]: "red, shared/blue@lan0" },
  isStatic: false,
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

const statusOf = (ip: string, ...names: string[]): string =>
  JSON.stringify([
    { name: "cbr0", ips: [ip], default: true },
    ...names.map((name) => ({ name, interface: "net1", dns: {} })),
  ]);

test("a running pod without a record lacks every network that it asks for", () => {
  expect(missingNetworks(pod, attachment)).toEqual(["default/red", "shared/blue"]);
  const annotations = { [defaultNetworkAnnotation]: "other" };
  expect(missingNetworks({ ...pod, annotations }, attachment)).toEqual(["kube-system/other"]);
});

test.each<[string, Partial<PodState>]>([
  ["is in the host's network", { hostNetwork: true }],
  ["is still starting", { phase: "Pending" }],
  ["has ended", { phase: "Succeeded" }],
  ["is being deleted", { isTerminating: true }],
  ["has no sandbox at the moment", { podIps: [] }],
  ["asks for nothing", { annotations: {} }],
  ["has an empty annotation", { annotations: { [networksAnnotation]: "[]" } }],
  ["has an annotation that cannot be read", { annotations: { [networksAnnotation]: "[{" } }],
  [
    "has its networks from another meta-plugin",
    {
      networkStatus: statusOf("10.244.0.7", "default/red", "shared/blue"),
    },
  ],
])("nothing is missing of a pod that %s", (_name, change) => {
  expect(missingNetworks({ ...pod, ...change }, attachment)).toEqual([]);
});

test.each<[string, Partial<PodAttachment>]>([
  ["is recorded", { isRecorded: true }],
  ["may be between two sandboxes", { unrecordedForMs: notAttachedGraceMs - 1 }],
])("nothing is missing of a pod that %s", (_name, change) => {
  expect(missingNetworks(pod, { ...attachment, ...change })).toEqual([]);
});

test.each([
  ["a sandbox of before", statusOf("10.244.0.3", "default/red", "shared/blue"), 2],
  ["one of the networks", statusOf("10.244.0.7", "shared/blue"), 1],
  ["the default network only", statusOf("10.244.0.7"), 2],
  ["nothing that can be read", "{", 2],
])("a status about %s does not hide what is missing", (_name, networkStatus, count) => {
  expect(missingNetworks({ ...pod, networkStatus }, attachment)).toHaveLength(count);
});
