import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { type EngineConfig, plexusdsListMark } from "#engine/config.ts";
import { declinedExitCode } from "#engine/ports/call.ts";
import type { PodState } from "#engine/ports/cluster.ts";
import { EngineLab, type LabOptions, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { type Reason, reasonRow } from "#lib/reasons.ts";
import { allowedNamespaces, allowedSelector } from "#npwg/isolation.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import type { Explanation } from "./explanation.ts";

/** Reasons that depend on the call or on a plugin: `explain` knows them only from the error of the ADD. */
type CallReason =
  | "AgentUnavailable"
  | "AlreadyAttached"
  | "ClusterRangesUnknown"
  | "DecodingFailure"
  | "IgnoredRequest"
  | "IncompatibleCniVersion"
  | "Internal"
  | "InvalidEnvironmentVariables"
  | "InvalidNetns"
  | "IoFailure"
  | "MasterMissing"
  | "NotFirstPlugin"
  | "PluginCrashed"
  | "PluginNotAvailable"
  | "PluginNotExecutable"
  | "PluginOutput"
  | "PluginTimeout"
  | "PodReplaced"
  | "StatusNotWritten"
  | "StateUnwritable"
  | "TeardownIncomplete"
  | "TryAgainLater"
  | "UnknownContainer"
  | "UnknownKey"
  | "UnreachableGateway";

/** A pod that an ADD refuses; it requests net-a by default. */
interface Refusal extends LabOptions {
  readonly annotation?: string;
  /** The annotation that replaces the default network. */
  readonly override?: string;
  /** The configuration of net-a. */
  readonly net?: JsonObject | string;
  readonly prepare?: (lab: EngineLab) => void | Promise<void>;
  /** Text in the message. */
  readonly says?: string | RegExp;
}

const resource = "vendor.example/vf";
const notMounted = "is not mounted: add a hostPath volume with the same path";

function needsDevice(lab: EngineLab): void {
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": resource };
  lab.source.addNad("default/net-a", network("net-a", "sriov"), annotations);
}

function failing(reason: Reason): FakeDevices {
  const devices = new FakeDevices();
  devices.failure = new CniError(reason, "no answer");
  return devices;
}

const addDefault = ({ source }: EngineLab): void =>
  source.addNad("kube-system/net-d", network("net-d", "ptp"));

const permitting =
  (annotations: Record<string, string>) =>
  ({ source }: EngineLab): void =>
    source.addNad("other/net-a", network("net-a", "macvlan"), annotations);

const config = (keys: Partial<EngineConfig>): Refusal => ({ config: keys });
const delegates = (...list: JsonObject[]): Refusal => ({ conf: { delegates: list } });
const clusterNetwork = (name: string, keys: JsonObject = {}): Refusal => ({
  conf: { clusterNetwork: name, ...keys },
});
/** A definition that is this many bytes larger than its network. */
const filled = (bytes: number): JsonObject => ({
  ...network("net-a", "macvlan"),
  filler: "x".repeat(bytes),
});
const times = (count: number): string => new Array(count).fill("net-a").join(",");
const isolated = config({ namespaceIsolation: true, globalNamespaces: ["shared"] });

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
      override: "kube-system/net-d@net7",
      prepare: addDefault,
    },
  },
  DefaultRouteTaken: {
    "two attachments that request the default route": {
      override: '[{"namespace":"kube-system","name":"net-d","default-route":[]}]',
      annotation: '[{"name":"net-a","default-route":["10.1.0.1"]}]',
      prepare: addDefault,
      says: "both eth0 and net1 are to have the IPv4 default route; only one attachment can",
    },
  },
  DefinitionNotAllowed: {
    "a plugin that attachmentPolicy does not permit": {
      ...config({ attachmentPolicy: "restricted" }),
      net: network("net-a", "macvlan", "portmap"),
      says: 'attachmentPolicy does not permit this definition: plugins[1].type: "portmap" is not',
    },
    "an argument of the pod that is a sysctl of the node": {
      ...config({ attachmentPolicy: "restricted" }),
      annotation: '[{"name":"net-a","cni-args":{"Sysctl":{"kernel.a":"1"}}}]',
      says: 'args.cni.sysctl: "kernel.a" is not below net',
    },
    "a plugin that a rule for the namespace does not list": {
      ...config({
        byNamespace: [{ name: "tenants", namespaces: ["def*"], attachmentPolicy: ["bridge"] }],
      }),
      says: 'attachmentPolicy of byNamespace "tenants" does not permit this definition: plugins[0]',
    },
    "a default network that only the pod names": {
      ...config({ attachmentPolicy: ["macvlan"] }),
      override: "other/net-d",
      prepare: ({ source }) => source.addNad("other/net-d", network("net-d", "ptp")),
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
    "the name of the loopback interface": { annotation: "net-a@lo" },
  },
  InvalidAnnotation: {
    "an invalid default network": { override: "a@@b" },
    "two default networks": { override: "a,b" },
    "an empty annotation of the default network": { override: "" },
    "a default network that is not valid JSON": { override: "{" },
  },
  InvalidDefinition: {
    "a definition that is not a network": { net: { plugins: 1 }, says: '"default/net-a"' },
    "a definition that is not JSON": { net: "{not json", says: '"default/net-a"' },
  },
  InvalidNetworkConfig: {
    "a second delegate without a name": {
      ...delegates(network("default-net", "ptp"), { type: "bridge" }),
      says: "delegates[1]",
    },
    "an auxiliary chain without a directory": {
      ...config({ auxiliaryCNIChainName: "vendor" }),
      says: 'auxiliaryCNIChainName "vendor" needs a clusterNetwork that is a path',
    },
  },
  InvalidRequest: {
    "a name that no IPAMClaim can have": {
      annotation: '[{"name":"net-a","ipam-claim-reference":"vm_1"}]',
      says: 'network "default/net-a": key "ipam-claim-reference"',
    },
  },
  MetaPlugin: {
    "a definition of a meta-plugin": { net: network("net-a", "bridge", "multus") },
    "a delegate that is a meta-plugin": delegates(network("loop", "ptp", "plexus")),
    "a file of a meta-plugin": {
      ...clusterNetwork("/loop.conflist"),
      prepare: ({ files }) => files.write("/loop.conflist", network("loop", "multus-shim")),
    },
    "a default network of a meta-plugin": {
      ...clusterNetwork("loop"),
      prepare: ({ source }) => source.addNad("kube-system/loop", network("loop", "multus")),
    },
  },
  MissingConfiguration: {
    "a definition without a configuration": {
      prepare: ({ source }) => source.addNad("default/net-a"),
    },
    "a file that is too long": {
      prepare: ({ source, files }) => {
        source.addNad("default/net-a");
        files.write("/etc/cni/plexus/net.d/a.conflist", filled(131_072));
      },
      says: "/etc/cni/plexus/net.d/a.conflist has 131",
    },
  },
  MissingDefaultNetwork: {
    "a default network without a definition": {
      ...clusterNetwork("nowhere"),
      says: "kube-system/nowhere",
    },
    "a missing default network file": { ...clusterNetwork("/none.conf"), says: "/none.conf" },
    "a default network of an empty directory": { ...clusterNetwork("/empty"), says: "/empty" },
    "a default network in a directory that is not mounted": {
      ...clusterNetwork("/srv/net.d/10-x.conflist"),
      prepare: ({ files }) => void files.unseen.add("/srv/net.d/10-x.conflist"),
      says: new RegExp(`/srv/net.d/10-x.conflist.*${notMounted}`),
    },
    "a confDir that is not mounted": {
      ...clusterNetwork("flannel", { confDir: "/srv/net.d" }),
      prepare: ({ files }) => void files.unseen.add("/srv/net.d"),
      says: new RegExp(`/srv/net.d.*${notMounted}`),
    },
    "a default network of all pods without a definition": {
      ...clusterNetwork("net-d", { defaultNetworks: ["nowhere"] }),
      prepare: addDefault,
    },
  },
  NoNetworkFound: {
    "a missing definition, the second of two": {
      annotation: "net-a,nowhere",
      says: "default/nowhere",
    },
    "a default network of the pod without a definition": { override: "gone" },
  },
  NetworkAccessDenied: {
    "a network of another namespace": { ...isolated, annotation: "other/net-a" },
    "another namespace in the JSON form": {
      ...isolated,
      annotation: '[{"name":"net-a","namespace":"other"}]',
    },
    "another namespace for the second of two": { ...isolated, annotation: "net-a,other/net-a" },
    "a default network of another namespace": { ...isolated, override: "other/net-a" },
    "a default network without a namespace": { ...isolated, override: "net-a" },
    "a definition that permits other namespaces": {
      annotation: "other/net-a",
      prepare: permitting({ [allowedNamespaces]: "a, defaul, default-*" }),
      says: "its annotations plexus.dev/allowed-… do not permit that",
    },
    "a definition that permits none": {
      override: "other/net-a",
      prepare: permitting({ [allowedNamespaces]: "" }),
    },
    "a definition whose selector does not match": {
      annotation: "other/net-a",
      prepare: permitting({ [allowedSelector]: "team=blue" }),
    },
    "a definition whose selector is empty": {
      annotation: "other/net-a",
      prepare: permitting({ [allowedSelector]: " " }),
    },
    "a misspelled permission": {
      annotation: "other/net-a",
      prepare: permitting({ "plexus.dev/allowed-namespace": "default" }),
    },
    "a permitted namespace with isolation": {
      ...isolated,
      annotation: "other/net-a",
      prepare: permitting({ [allowedNamespaces]: "default" }),
    },
  },
  OverLimit: {
    "too many networks": { annotation: times(32), says: "the pod has 33 networks" },
    "an annotation that is too long": { annotation: `net-a${" ".repeat(70_000)}` },
    "a configuration that is too long, before it is parsed": {
      net: `{"filler": "${"x".repeat(131_072)}`,
      says: 'NetworkAttachmentDefinition "default/net-a": spec.config has 131084 bytes, more than the limit of 131072',
    },
    "a definition with too many plugins": {
      net: network("net-a", ...new Array(5000).fill("a")),
      says: "plugins has 5000 plugins, more than the limit of 32",
    },
    "a delegate that is too long": {
      ...delegates(filled(131_072)),
      says: /delegates\[0\] has 131\d+ bytes, more than the limit of 131072/,
    },
    "a record that is too long": {
      annotation: times(20),
      net: filled(130_000),
      says: "the attachment record with its teardown plan, up to network default/net-a, has 4",
    },
  },
  PluginMissing: {
    "a plugin that is not installed": {
      prepare: ({ plugins }) => plugins.setLookup("macvlan", { outcome: "missing", message: "" }),
      says: /network default\/net-a: .*"macvlan" in path \[\/opt\/cni\/bin\]/,
    },
  },
  PluginRefused: {
    "a plugin that is writable by others": {
      prepare: ({ plugins }) => plugins.setLookup("macvlan", { outcome: "refused", message: "w" }),
      says: "may not be executed: w",
    },
  },
  PrimaryNotReady: {
    "a missing readiness file": config({ readinessindicatorfile: "/run/ready" }),
    "a readiness file that is not mounted": {
      ...config({ readinessindicatorfile: "/run/ready" }),
      prepare: ({ files }) => void files.unseen.add("/run/ready"),
      says: new RegExp(`/run/ready.*${notMounted}`),
    },
  },
  NextPluginMissing: {
    "a plugin after Plexus's": {
      nextPlugins: async () => ["linkerd-cni"],
      prepare: ({ plugins }) =>
        plugins.setLookup("linkerd-cni", { outcome: "missing", message: "" }),
    },
  },
  RepeatedFailures: {
    "four sandboxes that cannot be detached": {
      leftoverDuty: "daemon",
      net: network("net-a", "vendor"),
      prepare: async (lab) => {
        for (const command of ["ADD", "DEL"])
          lab.plugins.script(`vendor ${command}`, failed(999, "connection refused"));
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
    "two requests of which the plugin supports one": {
      annotation: '[{"name":"net-a","ips":["10.1.1.1"],"mac":"02:00:00:00:00:09"}]',
      net: { ...network("net-a"), plugins: [{ type: "macvlan", capabilities: { mac: true } }] },
      says: /default\/net-a.*capability "ips" /,
    },
  },
  UnusableDevice: {
    "a resource that two device sources allocate": {
      deviceSources: ["kubelet", "claims"].map((source) =>
        new FakeDevices(source).allocate(resource, source),
      ),
      prepare: needsDevice,
    },
  },
};

const rows = Object.entries(refusals).flatMap(([reason, cases]) =>
  Object.entries(cases).map(([title, refusal]) => ({ title, reason: reason as Reason, refusal })),
);

async function labWith(refusal: Refusal): Promise<{ lab: EngineLab; pod: PodState }> {
  const { annotation = "net-a", override, net = network("net-a", "macvlan"), prepare } = refusal;
  const lab = new EngineLab(refusal);
  lab.conf = { ...lab.conf, ...plexusdsListMark };
  const annotations = {
    [networksAnnotation]: annotation,
    ...(override === undefined ? {} : { [defaultNetworkAnnotation]: override }),
  };
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

test.each(rows)(
  "ADD and explain refuse $title with $reason [N-3.4.1d] [N-4.1.2.1.3.2b] [N-4.1.2.1.4.2b] [N-4.1.2.1.5b] [N-4.2a] [N-7.4] [S-304] [S-311] [S-404]",
  async ({ reason, refusal }) => {
    const { lab, pod } = await labWith(refusal);
    const [steps, events] = [lab.journal.length, lab.events.recorded.length];
    // The order to the shim names the plugins, and the record precedes every order.
    const isOrdered = reason === "PluginMissing" || reason === "PluginRefused";
    const before = await explain(lab, pod);
    expect(lab.events.recorded).toHaveLength(events);

    const { exitCode, json } = await lab.add({ pod: "default/web/uid-1" });
    expect({ exitCode, details: json.details }).toEqual({
      // Another engine may serve a call that this one has no source of pods for.
      exitCode: reason === "DaemonUnavailable" ? declinedExitCode : 1,
      details: `reason=${reason}`,
    });
    if (refusal.says !== undefined) expect(json.msg).toMatch(refusal.says);
    expect(lab.journal.slice(steps), "nothing is executed, and no record stays").toEqual(
      isOrdered ? ["create c1@eth0", "finish c1@eth0"] : [],
    );
    const event = { pod: "default/web", type: "Warning", reason, message: json.msg };
    // Without its readiness file the pod is not even looked up.
    expect(lab.events.recorded.slice(events)).toEqual(reason === "PrimaryNotReady" ? [] : [event]);
    const [problem] = before.problems;
    expect(problem?.reason).toBe(reason);
    // Only the call has its arguments, which are part of the record.
    expect(withoutSizes(problem?.message)).toBe(withoutSizes(json.msg));
    const { advice, calls } = await explain(lab, pod);
    expect(advice.finding).toBe(reason);
    expect(advice.sentence.toLowerCase()).toContain(reasonRow(reason).step.toLowerCase());
    expect(calls.at(-1)?.subject).toBe(problem?.subject);
  },
);

function withoutSizes(message: unknown): string {
  return String(message).replaceAll(/\d+ bytes/g, "bytes");
}

test("explain lists all problems of a pod, and the networks without a problem", async () => {
  const annotation = "nowhere,net-a,other/net-b@net1,net-a@net1";
  const { lab, pod } = await labWith({ annotation, ...config({ namespaceIsolation: true }) });
  lab.plugins.setLookup("ptp", { outcome: "missing", message: "" });
  const { problems, networks, advice } = await explain(lab, pod);

  expect(problems.map(({ network, reason }) => [network, reason])).toEqual([
    ["default/nowhere", "NoNetworkFound"],
    ["other/net-b", "NetworkAccessDenied"],
    ["default-net", "PluginMissing"],
  ]);
  expect(networks.map(({ network }) => network)).toEqual([
    ...["default-net", "default/net-a", "default/net-a"],
    ...["default/nowhere", "other/net-b"],
  ]);
  expect(networks.at(-1)).toEqual({ network: "other/net-b", isDefault: false });
  expect(advice.finding).toBe("NoNetworkFound");
});

const [ours, net] = ["default-net", "default/net-a"];
const nowhere = clusterNetwork("nowhere");

test.each<[title: string, Refusal, problems: Reason[], networks: string[]]>([
  ["no default network", nowhere, ["MissingDefaultNetwork"], [net]],
  [
    "no default network, which the pod replaces",
    { ...nowhere, override: "net-d", prepare: addDefault },
    ["MissingDefaultNetwork"],
    ["kube-system/net-d", net],
  ],
  [
    "a kubelet that does not answer",
    { deviceSources: [failing("DevicesUnknown")], prepare: needsDevice },
    ["DevicesUnknown"],
    [ours, net],
  ],
])("explain continues after %s", async (...[, refusal, reasons, names]) => {
  const { lab, pod } = await labWith(refusal);
  const { problems, networks } = await explain(lab, pod);
  expect(problems.map(({ reason }) => reason)).toEqual(reasons);
  expect(networks.map((each) => each.network)).toEqual(names);
});

test("explain lists problems that the configuration tolerates, without an event", async () => {
  const { lab, pod } = await labWith({ annotation: '[{"name": ]' });
  const { problems } = await explain(lab, pod);

  expect(problems).toMatchObject([{ reason: "InvalidAnnotation", isTolerated: true }]);
  expect(lab.events.recorded).toEqual([]);
});
