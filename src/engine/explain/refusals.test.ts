import { expect, test } from "vitest";
import { CniError, type Reason } from "#cni/error.ts";
import type { PodState } from "#engine/check/not-attached.ts";
import type { EngineConfig } from "#engine/config.ts";
import { EngineLab, type LabOptions, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import type { Explanation } from "./explanation.ts";

/** Reasons that only a call has, or what a plugin did: `explain` knows them after the ADD, from its error. */
type CallReason =
  | "AlreadyAttached"
  | "DecodingFailure"
  | "DefaultRouteTaken"
  | "IgnoredRequest"
  | "IncompatibleCniVersion"
  | "Internal"
  | "InvalidEnvironmentVariables"
  | "InvalidNetns"
  | "InvalidRequest"
  | "IoFailure"
  | "NotFirstPlugin"
  | "PluginCrashed"
  | "PluginNotAvailable"
  | "PluginOutput"
  | "PluginTimeout"
  | "PodReplaced"
  | "StateUnwritable"
  | "TeardownIncomplete"
  | "TryAgainLater"
  | "UnknownContainer"
  | "UnreachableGateway";

/** A pod that an ADD refuses; it asks for net-a unless it says otherwise. */
interface Refusal extends LabOptions {
  readonly annotation?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The configuration of net-a. */
  readonly net?: JsonObject | string;
  readonly prepare?: (lab: EngineLab) => void | Promise<void>;
}

const resource = "vendor.example/vf";

function needsDevice(lab: EngineLab): void {
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": resource };
  lab.source.addNad("default/net-a", network("net-a", "sriov"), annotations);
}

function failing(reason: Reason): FakeDevices {
  const devices = new FakeDevices();
  devices.failure = new CniError(reason, "no answer");
  return devices;
}

const config = (keys: Partial<EngineConfig>): Refusal => ({ config: keys });

/** A row for every reason for which the planner refuses a pod: a new reason without one does not compile. */
const refusals: Readonly<Record<Exclude<Reason, CallReason>, Readonly<Record<string, Refusal>>>> = {
  ApiUnavailable: {
    "a definition that cannot be read": {
      prepare: ({ source }) => {
        const error = new CniError("ApiUnavailable", "cannot read the definition");
        source.getNad = () => Promise.reject(error);
      },
    },
  },
  DaemonUnavailable: {
    "a call without a source of definitions": {
      noSource: true,
      conf: {
        delegates: [network("default-net", "ptp")],
        runtimeConfig: { "io.kubernetes.cri.pod-annotations": { [networksAnnotation]: "net-a" } },
      },
    },
  },
  DefaultInterfaceName: {
    "a default network on another interface": {
      annotations: { [defaultNetworkAnnotation]: "kube-system/net-d@net7" },
      prepare: ({ source }) => source.addNad("kube-system/net-d", network("net-d", "ptp")),
    },
  },
  DeviceNotAllocated: {
    "a resource that no container requests": {
      deviceSources: [new FakeDevices()],
      prepare: needsDevice,
    },
    "a device of another pod": {
      deviceSources: [new FakeDevices().allocate(resource, "0000:03:02.1")],
      annotation: '[{"name":"net-a","deviceID":"0000:03:02.7"}]',
      prepare: needsDevice,
    },
    "a claim without a device": {
      deviceSources: [new FakeDevices()],
      annotation: '[{"name":"net-a","dev.plexus.resourceClaim":{"claim":"nic"}}]',
      prepare: needsDevice,
    },
  },
  DevicesUnknown: {
    "a kubelet that does not answer": {
      deviceSources: [failing("DevicesUnknown")],
      prepare: needsDevice,
    },
  },
  InterfaceNameTaken: {
    "an interface name that is requested twice": { annotation: "net-a@net9,net-a@net9" },
    "the name of the default network's interface": { annotation: "net-a@eth0" },
  },
  InvalidAnnotation: {
    "an invalid annotation": {
      ...config({ invalidAnnotation: "fail" }),
      annotation: '[{"name": ]',
    },
    "an invalid default network": { annotations: { [defaultNetworkAnnotation]: "a@@b" } },
  },
  InvalidDefinition: { "a definition that is no network": { net: { plugins: 1 } } },
  InvalidNetworkConfig: {
    "a second delegate that is invalid": {
      conf: { delegates: [network("default-net", "ptp"), { name: "x", plugins: 1 }] },
    },
    "an auxiliary chain without a directory": config({ auxiliaryCNIChainName: "vendor" }),
  },
  MetaPlugin: { "a definition of a meta-plugin": { net: network("net-a", "multus") } },
  MissingConfiguration: {
    "a definition without a configuration": {
      prepare: ({ source }) => source.addNad("default/net-a"),
    },
  },
  MissingDefaultNetwork: {
    "a default network without a definition": { conf: {}, config: { clusterNetwork: "nowhere" } },
    "a default network of all pods without a definition": {
      conf: {},
      config: { clusterNetwork: "net-d", defaultNetworks: ["nowhere"] },
      prepare: ({ source }) => source.addNad("kube-system/net-d", network("net-d", "ptp")),
    },
  },
  MissingDefinition: { "a missing definition": { annotation: "nowhere" } },
  NetworkAccessDenied: {
    "a network of another namespace": {
      annotation: "other/net-a",
      ...config({ namespaceIsolation: true }),
    },
  },
  OverLimit: {
    "too many networks": { annotation: `${"net-a,".repeat(31)}net-a` },
    "an annotation that is too long": { annotation: `net-a${" ".repeat(70_000)}` },
    "a configuration that is too long": {
      net: { ...network("net-a", "macvlan"), filler: "x".repeat(140_000) },
    },
    "a record that is too long": {
      annotation: `${"net-a,".repeat(19)}net-a`,
      net: { ...network("net-a", "macvlan"), filler: "x".repeat(120_000) },
    },
  },
  PluginMissing: {
    "a plugin that is not installed": {
      prepare: ({ plugins }) => plugins.setLookup("macvlan", { outcome: "missing", message: "" }),
    },
  },
  PluginRefused: {
    "a plugin that is writable by others": {
      prepare: ({ plugins }) => plugins.setLookup("macvlan", { outcome: "refused", message: "w" }),
    },
  },
  PrimaryNotReady: { "a missing readiness file": config({ readinessindicatorfile: "/run/ready" }) },
  RepeatedFailures: {
    "four sandboxes that cannot be detached": {
      repeatsTeardowns: true,
      prepare: async (lab) => {
        for (const command of ["ADD", "DEL"]) {
          lab.plugins.script(`macvlan ${command}`, failed(999, "connection refused"));
        }
        for (let n = 1; n <= 4; n++) {
          const env = { CNI_CONTAINERID: `earlier-${n}` };
          await lab.add({ pod: "default/web/uid-1", env });
          await lab.del({ pod: "default/web/uid-1", env });
        }
      },
    },
  },
  RepeatedNetwork: {
    "a masquerading network twice": {
      annotation: "net-a,net-a",
      net: { ...network("net-a"), plugins: [{ type: "ptp", ipMasq: true }] },
    },
  },
  UndeclaredRequest: {
    "an address that no plugin takes": { annotation: '[{"name":"net-a","ips":["10.1.0.5/24"]}]' },
  },
  UnusableDevice: {
    "a resource of two allocators": {
      deviceSources: ["kubelet", "claims"].map((source) =>
        new FakeDevices(source).allocate(resource, source),
      ),
      prepare: needsDevice,
    },
  },
};

const rows = Object.entries(refusals).flatMap(([reason, cases]) =>
  Object.entries(cases).map(([title, refusal]) => ({ title, reason, refusal })),
);

async function labWith(refusal: Refusal): Promise<{ lab: EngineLab; pod: PodState }> {
  const { annotation = "net-a", net = network("net-a", "macvlan"), prepare, ...options } = refusal;
  const lab = new EngineLab(options);
  const annotations = { [networksAnnotation]: annotation, ...refusal.annotations };
  const pod = lab.source.addPod({ name: "web", annotations });
  lab.source.addNad("default/net-a", net);
  await prepare?.(lab);
  const state = { node: "n1", hostNetwork: false, phase: "Pending", isTerminating: false };
  return { lab, pod: { ...pod, ...state, podIps: [], networkStatus: undefined } };
}

function explain(lab: EngineLab, pod: PodState): Promise<Explanation> {
  return lab.engine.explain(pod, {
    pods: { find: async () => pod },
    node: { name: "n1" },
    conf: lab.conf,
    searchPath: ["/opt/cni/bin"],
    findPlugin: async (type) => lab.plugins.find(type),
  });
}

test.each(rows)("ADD and explain refuse $title with $reason", async ({ reason, refusal }) => {
  const { lab, pod } = await labWith(refusal);
  const [calls, events] = [lab.plugins.calls.length, lab.events.recorded.length];
  const before = await explain(lab, pod);
  expect(lab.plugins.calls).toHaveLength(calls);
  expect(lab.events.recorded).toHaveLength(events);

  const { exitCode, json } = await lab.add({ pod: "default/web/uid-1" });
  expect({ exitCode, details: json.details }).toEqual({ exitCode: 1, details: `reason=${reason}` });
  const [problem] = before.problems;
  expect(problem?.reason).toBe(reason);
  // Only the call has its arguments, which are part of the record.
  expect(withoutSizes(problem?.message)).toBe(withoutSizes(json.msg));
  expect((await explain(lab, pod)).advice.finding).toBe(reason);
});

function withoutSizes(message: unknown): string {
  return String(message).replaceAll(/\d+ bytes/g, "bytes");
}

test("explain names all problems of a pod, and the networks without one", async () => {
  const annotation = "nowhere,net-a,other/net-b@net1,net-a@net1";
  const { lab, pod } = await labWith({ annotation, ...config({ namespaceIsolation: true }) });
  lab.plugins.setLookup("ptp", { outcome: "missing", message: "" });
  const { problems, networks, advice } = await explain(lab, pod);

  expect(problems.map(({ network, reason }) => [network, reason])).toEqual([
    ["default/nowhere", "MissingDefinition"],
    ["other/net-b", "NetworkAccessDenied"],
    ["default-net", "PluginMissing"],
  ]);
  expect(networks.map(({ network }) => network)).toEqual([
    ...["default-net", "default/net-a", "default/net-a"],
    ...["default/nowhere", "other/net-b"],
  ]);
  expect(advice.finding).toBe("MissingDefinition");
});

test("explain names what the configuration tolerates, without an event", async () => {
  const { lab, pod } = await labWith({ annotation: '[{"name": ]' });
  const { problems } = await explain(lab, pod);

  expect(problems).toMatchObject([{ reason: "InvalidAnnotation", isTolerated: true }]);
  expect(lab.events.recorded).toEqual([]);
});
