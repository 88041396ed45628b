import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { PodState } from "#engine/check/not-attached.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { Pod } from "#engine/ports.ts";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { ended, exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import type { Explanation, NodeFacts } from "./explanation.ts";
import { pluginErrors } from "./plugin-errors.ts";

/** What is the matter, and what is known of the cluster besides. */
interface Scenario {
  readonly finding: string;
  /** Parts of the sentence. */
  readonly says: readonly (string | RegExp)[];
  readonly conf?: JsonObject;
  readonly config?: Partial<EngineConfig>;
  readonly annotation?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly pod?: Partial<PodState>;
  readonly node?: Partial<NodeFacts>;
  readonly noPod?: boolean;
  readonly devices?: FakeDevices;
  /** Makes it so; `add` has been called if it is not false. */
  readonly before?: (lab: EngineLab) => void | Promise<void>;
  readonly after?: (lab: EngineLab) => void | Promise<void>;
  /** @default true */
  readonly add?: boolean;
  /** @default false */
  readonly ok?: boolean;
}

const podName = { namespace: "default", name: "web" };

async function explain(scenario: Scenario): Promise<Explanation> {
  const { conf, config, devices, annotation = "net-a" } = scenario;
  const lab = new EngineLab({
    ...(conf && { conf }),
    ...(config && { config }),
    ...(devices && { deviceSources: [devices] }),
  });
  const annotations = {
    ...(annotation === "" ? {} : { [networksAnnotation]: annotation }),
    ...scenario.annotations,
  };
  const pod: Pod = lab.source.addPod({ name: "web", annotations });
  lab.source.addNad("default/net-a", network("net-a", "macvlan"));
  await scenario.before?.(lab);
  if (scenario.add !== false) await lab.add({ pod: `default/web/${pod.uid}` });
  await scenario.after?.(lab);
  const facts: PodState = {
    ...{ uid: pod.uid, node: "n1", hostNetwork: false, phase: "Pending", isTerminating: false },
    ...{ ...podName, isStatic: false, podIps: ["10.0.0.1"], networkStatus: undefined },
    annotations,
    ...scenario.pod,
  };
  return lab.engine.explain(podName, {
    pods: {
      find: async () => {
        if (lab.source.failure !== undefined) throw lab.source.failure;
        return scenario.noPod === true ? undefined : facts;
      },
    },
    node: { name: "n1", confState: "active", ...scenario.node },
    conf: lab.conf,
    searchPath: ["/opt/cni/bin"],
    findPlugin: async (type) => lab.plugins.find(type),
  });
}

const plugin = (message: string, code = 999) => ({
  before: (lab: EngineLab): void => lab.plugins.script("macvlan ADD", failed(code, message)),
});
const running = { pod: { phase: "Running" } };

const ignoring: Pick<Scenario, "annotation" | "before"> = {
  annotation: '[{"name": "net-a", "mac": "02:00:00:00:00:0a"}]',
  before: (lab) =>
    lab.plugins.script("macvlan ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24"))),
};

const scenarios: Readonly<Record<string, Scenario>> = {
  "a pod that there is not": {
    ...{ finding: "PodNotFound", says: ["no pod default/web"], noPod: true, add: false },
  },
  "a pod that is not scheduled": {
    finding: "NotScheduled",
    says: ["not bound to a node"],
    pod: { node: undefined as never },
    add: false,
  },
  "a pod of another node": {
    finding: "OtherNode",
    says: ["on node n2", "serves n1"],
    pod: { node: "n2" },
    add: false,
  },
  "a pod of the host's network that asks for networks": {
    finding: "HostNetwork",
    says: ["hostNetwork: true", "no effect"],
    pod: { hostNetwork: true, phase: "Running" },
    add: false,
  },
  "a pod of the host's network that asks for none": {
    finding: "HostNetwork",
    says: ["asks for no networks"],
    annotation: "",
    pod: { hostNetwork: true, phase: "Running" },
    add: false,
    ok: true,
  },
  "an annotation that is no JSON": {
    finding: "InvalidAnnotation",
    says: [/line 1, column \d+/],
    annotation: '[{"name": ]',
  },
  "an annotation with a bad value": {
    finding: "InvalidAnnotation",
    says: ['element 1, key "mac"', '"zz"'],
    annotation: '[{"name": "net-a", "mac": "zz"}]',
  },
  "a definition that there is not": {
    finding: "MissingDefinition",
    says: ["default/nowhere", "create the definition"],
    annotation: "nowhere",
  },
  "a plugin that is not installed": {
    finding: "PluginMissing",
    says: ['"macvlan"', "/opt/cni/bin", "install the plugin on this node"],
    before: (lab) => lab.plugins.setLookup("macvlan", { outcome: "missing", message: "" }),
  },
  "a plugin that may not be executed": {
    finding: "PluginRefused",
    says: ["may not be executed: it is world-writable", "only root can write"],
    before: (lab) =>
      lab.plugins.setLookup("macvlan", { outcome: "refused", message: "it is world-writable" }),
  },
  "a request that no plugin declares": {
    finding: "UndeclaredRequest",
    says: ['capability "ips"', '"capabilities"', "undeclaredRequests: cniArgs"],
    annotation: '[{"name": "net-a", "ips": ["10.1.0.5/24"]}]',
  },
  "a request that a plugin ignores": {
    finding: "IgnoredRequest",
    says: ['ignored the key "mac"', "ignoredRequests: warn"],
    ...ignoring,
    config: { undeclaredRequests: "cniArgs" },
  },
  "a request that a plugin ignores, of a pod that starts all the same": {
    finding: "IgnoredRequest",
    says: ["net-a ignored mac (asked 02:00:00:00:00:0a, got 02:00:00:00:00:02)"],
    ...ignoring,
    ...running,
    config: { undeclaredRequests: "cniArgs", ignoredRequests: "warn" },
  },
  "a gateway that cannot be reached": {
    finding: "UnreachableGateway",
    says: ["192.0.2.1", "default-route"],
    annotation: '[{"name": "net-a", "default-route": ["192.0.2.1"]}]',
  },
  "a default network that is not configured": {
    finding: "MissingDefaultNetwork",
    says: ["no default network is configured", "clusterNetwork"],
    conf: {},
  },
  "an unavailable API server": {
    finding: "ApiUnavailable",
    says: ["from the API server within 5000 ms"],
    before: (lab) => {
      lab.source.failure = new Error(
        "cannot read pod default/web from the API server within 5000 ms (timeout)",
      );
    },
  },
  "an API server that became unavailable": {
    finding: "ApiUnavailable",
    says: ["not been listed yet"],
    add: false,
    before: (lab) => {
      lab.source.notReady = "the pods of this node have not been listed yet";
    },
  },
  "a pod that was replaced": {
    finding: "PodReplaced",
    says: ["deleted or replaced"],
    before: (lab) => lab.source.removePod("default/web"),
  },
  "a disk that is full": {
    finding: "StateUnwritable",
    says: ["ENOSPC", "/var/lib/plexus"],
    before: (lab) => {
      lab.records.failWrite = {
        nth: 1,
        error: new CniError("StateUnwritable", "ENOSPC: no space left"),
      };
    },
  },
  "a network that has no address left": {
    ...plugin(
      "failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.2",
    ),
    finding: "IpamExhausted",
    says: ["no IP addresses available", "plexusctl records --orphans"],
  },
  "an address that somebody else has": {
    ...plugin(
      "failed to allocate for range 0: requested IP address 10.0.0.9 is not available in range set",
    ),
    finding: "AddressTaken",
    says: ["10.0.0.9", "another address"],
  },
  "an address of another network": {
    ...plugin("failed to allocate all requested IPs: 10.9.9.9"),
    finding: "AddressOutsideRange",
    says: ["within the network's range"],
  },
  "a master that the node does not have": {
    ...plugin("Link not found"),
    finding: "MasterMissing",
    says: ["Link not found", "an interface that this node has"],
  },
  "a kernel without the driver": {
    ...plugin("failed to create ipvlan: operation not supported"),
    finding: "KernelSupport",
    says: ["kernel module"],
  },
  "a plugin that is not let do its work": {
    ...plugin("failed to open netns: permission denied"),
    finding: "PluginDenied",
    says: ["SELinux"],
  },
  "a plugin that hangs": {
    finding: "PluginTimeout",
    says: ["timed out after 60000 ms", "delegateTimeoutMs"],
    before: (lab) => lab.plugins.script("macvlan ADD", ended("timeout")),
  },
  "a plugin that crashes": {
    finding: "PluginCrashed",
    says: ["killed by signal 11"],
    before: (lab) => lab.plugins.script("macvlan ADD", { ...ended("signaled"), code: 11 }),
  },
  "a plugin that prints nothing": {
    finding: "PluginOutput",
    says: ["plugin's maintainers"],
    before: (lab) => lab.plugins.script("macvlan ADD", exited(0, "")),
  },
  "a plugin that does not know the version": {
    ...plugin("incompatible CNI versions; config is 1.0.0, plugin supports [0.3.1]", 1),
    finding: "IncompatibleCniVersion",
    says: ["cniVersion"],
  },
  "an unknown error of a plugin": {
    ...plugin("the flux capacitor is empty"),
    finding: "PluginFailed",
    says: ["network default/net-a (net1)", "flux capacitor", "the plugin's message"],
  },
  "a configuration that the runtime does not take": {
    finding: "PlexusConfShadowed",
    says: ["00-first.conf, which sorts before", "remove that file"],
    node: {
      confState: "shadowed",
      confReason:
        "the container runtime takes 00-first.conf, which sorts before 00-plexus.conflist",
    },
    add: false,
    ...running,
  },
  "a node without a primary CNI": {
    finding: "PlexusConfWaiting",
    says: ["no primary CNI"],
    node: { confState: "waiting", confReason: "there is no primary CNI's configuration yet" },
    add: false,
  },
  "a configuration that somebody removes": {
    finding: "PlexusConfMissing",
    says: ["what removes the file"],
    node: { confState: "missing", confReason: "00-plexus.conflist was removed" },
    add: false,
  },
  "a configuration that another meta-plugin renames": {
    finding: "PlexusConfForeignRename",
    says: ["another meta-plugin"],
    node: { confState: "foreign-rename", confReason: "renamed to 00-plexus.conflist.old" },
    add: false,
  },
  "a pod that is older than Plexus": {
    finding: "NotAttached",
    says: ["without default/net-a: delete it"],
    add: false,
    ...running,
  },
  "a pod that is older than Plexus and asks for nothing": {
    ...{ finding: "NotAttached", says: ["lacks nothing"], add: false, ok: true },
    annotation: "",
    ...running,
  },
  "a pod that the runtime has not come to yet": {
    finding: "NotAttachedYet",
    says: ["pod's events"],
    add: false,
  },
  "an annotation that was changed since": {
    finding: "AnnotationChanged",
    says: ["without network default/net-b", "create it again"],
    after: (lab) => {
      lab.source.addNad("default/net-b", network("net-b", "macvlan"));
    },
    pod: { phase: "Running", annotations: { [networksAnnotation]: "net-a,net-b" } },
  },
  "a status that could not be written": {
    finding: "StatusPending",
    says: ["network-status"],
    before: (lab) => {
      lab.publisher.outcome = "pending";
    },
    ...running,
  },
  "a pod that cannot be detached": {
    finding: "PluginMissing",
    says: ["could not be detached", '"macvlan"', "the DEL is repeated"],
    after: async (lab) => {
      lab.plugins.setLookup("macvlan", { outcome: "missing", message: "" });
      await lab.del({ pod: "default/web/uid-1" });
    },
    pod: { phase: "Running", isTerminating: true },
  },
  "a pod that is attached as it asks": {
    ...{ finding: "Attached", says: ["eth0=default-net, net1=default/net-a"], ok: true },
    ...running,
  },
  "a pod that asks for nothing": {
    ...{ finding: "NothingRequested", says: ["default network is attached"], ok: true },
    annotation: "",
    ...running,
  },
};

test.each(Object.entries(scenarios))("%s", async (_, scenario) => {
  const { advice } = await explain(scenario);

  expect(advice.finding, advice.sentence).toBe(scenario.finding);
  for (const part of scenario.says) {
    if (typeof part === "string") expect(advice.sentence).toContain(part);
    else expect(advice.sentence).toMatch(part);
  }
  expect(advice.sentence).toMatch(/^[A-Z].*\.$/s);
  expect(advice.ok).toBe(scenario.ok ?? false);
});

test("refusedRequests() has the pods that the rules for requests keep from starting, for ten minutes", async () => {
  const lab = new EngineLab();
  const asks = (name: string, element: object) =>
    lab.source.addPod({
      name,
      annotations: { [networksAnnotation]: JSON.stringify([{ name: "net-a", ...element }]) },
    });
  lab.source.addNad("default/net-a", network("net-a", "macvlan"));
  asks("fine", {});
  asks("mac", { mac: "02:00:00:00:00:0a" });
  asks("gone", { name: "no-such" });
  for (const name of ["mac", "gone", "fine"]) await lab.add({ pod: `default/${name}` });

  expect(lab.engine.refusedRequests()).toEqual([
    {
      finding: "UndeclaredRequest",
      step: expect.stringContaining("undeclaredRequests: cniArgs"),
      pods: ["default/mac"],
    },
  ]);
  lab.advance(11 * 60_000);
  expect(lab.engine.refusedRequests()).toEqual([]);
});

test("every known error of plugins is provoked", () => {
  const provoked = new Set(Object.values(scenarios).map(({ finding }) => finding));

  expect(pluginErrors.filter(({ finding }) => !provoked.has(finding))).toEqual([]);
});

function needsDevice(lab: EngineLab): void {
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
  lab.source.addNad("default/net-a", network("net-a", "sriov"), annotations);
}

test("an explanation shows the device of a network", async () => {
  const devices = new FakeDevices().allocate("vendor.example/vf", "0000:03:02.1");
  const { networks } = await explain({ finding: "", says: [], devices, before: needsDevice });

  expect(networks[1]).toMatchObject({ network: "default/net-a", device: "0000:03:02.1" });
});

test("an explanation shows networks with interface, addresses and plugins", async () => {
  const { networks, record, calls } = await explain({ finding: "", says: [], ...running });

  expect(networks).toEqual([
    {
      network: "default-net",
      isDefault: true,
      ifName: "eth0",
      addresses: ["10.0.0.1/24"],
      plugins: ["ptp"],
    },
    {
      network: "default/net-a",
      isDefault: false,
      ifName: "net1",
      addresses: ["10.0.0.2/24"],
      plugins: ["macvlan"],
    },
  ]);
  expect(record).toMatchObject({ containerId: "c1", pendingStatus: false });
  expect(calls.map(({ command }) => command)).toEqual(["ADD"]);
});

test("an explanation has the interfaces that the published status lists", async () => {
  const status = [
    { name: "default-net", interface: "eth0" },
    { name: "net-a", interface: "net1" },
  ];
  const pod = { ...running.pod, networkStatus: JSON.stringify(status) };
  const { published } = await explain({ finding: "", says: [], pod });

  expect(published).toEqual(["eth0", "net1"]);
});

test("nothing is executed for an explanation", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web" });
  const pods = { find: async () => undefined };
  const findPlugin = async (type: string) => lab.plugins.find(type);
  await lab.engine.explain(podName, {
    pods,
    node: { name: "" },
    conf: {},
    searchPath: [],
    findPlugin,
  });

  expect(lab.plugins.calls).toEqual([]);
  expect(lab.records.writes).toEqual([]);
});
