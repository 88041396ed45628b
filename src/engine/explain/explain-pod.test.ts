import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import { begunTeardown } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { ended, exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { Condition } from "#lib/condition.ts";
import type { JsonObject } from "#lib/json.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { requestsOf } from "./attached-network.ts";
import type { ExplainOptions } from "./explain-pod.ts";
import type { Explanation, NodeFacts } from "./explanation.ts";

/** A pod's problem, and the state of its node and cluster. */
interface Scenario {
  readonly conf?: JsonObject;
  readonly config?: Partial<EngineConfig>;
  /** @default net-a, a network of macvlan */
  readonly annotation?: string;
  readonly pod?: Partial<PodState>;
  readonly node?: Partial<NodeFacts>;
  readonly noPod?: boolean;
  readonly devices?: FakeDevices;
  readonly before?: (lab: EngineLab) => void | Promise<void>;
  readonly after?: (lab: EngineLab) => void | Promise<void>;
  readonly leases?: ExplainOptions["leases"];
  /** Whether there was an ADD. @default true */
  readonly add?: boolean;
}

const podName = { namespace: "default", name: "web" };

async function explain(scenario: Scenario): Promise<Explanation> {
  const { conf, config, devices, annotation = "net-a" } = scenario;
  const lab = new EngineLab({
    ...(conf && { conf }),
    ...(config && { config }),
    ...(devices && { deviceSources: [devices] }),
  });
  const annotations: Record<string, string> =
    annotation === "" ? {} : { [networksAnnotation]: annotation };
  const pod: Pod = lab.source.addPod({ name: "web", annotations });
  lab.source.addNad("default/net-a", network("net-a", "macvlan"));
  await scenario.before?.(lab);
  if (scenario.add !== false) await lab.add({ pod: `default/web/${pod.uid}` });
  await scenario.after?.(lab);
  const facts: PodState = {
    ...{ uid: pod.uid, node: "n1", hostNetwork: false, phase: "Pending", isTerminating: false },
    ...{ ...podName, podIps: ["10.0.0.1"], networkStatus: undefined },
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
    node: { name: "n1", ...scenario.node },
    conf: lab.conf,
    searchPath: ["/opt/cni/bin"],
    findPlugin: async (type) => lab.plugins.find(type),
    netlink: lab.kernel.transport,
    ...(scenario.leases && { leases: scenario.leases }),
  });
}

async function expectAdvice(
  scenario: Scenario,
  { finding, says, ok = false }: { finding: string; says: readonly string[]; ok?: boolean },
): Promise<void> {
  const { advice } = await explain(scenario);
  expect(advice).toMatchObject({ finding, ok });
  for (const part of says) expect(advice.sentence).toContain(part);
  expect(advice.sentence).toMatch(/^[A-Z].*\.$/s);
}

/** The last word of a title. */
const findingOf = (title: string): string => title.split(" ").at(-1) ?? "";

/** Scripts what macvlan does at ADD. */
const adding = (outcome: Parameters<EngineLab["plugins"]["script"]>[1]): Scenario => ({
  before: (lab) => lab.plugins.script("macvlan ADD", outcome),
});
const never = { add: false };
const running = { pod: { phase: "Running" } };
const redefined: Scenario = {
  ...running,
  config: { hotPlug: true },
  after: (lab) => lab.source.addNad("default/net-a", network("net-a", "macvlan", "tuning")),
};
const onHost = { ...never, pod: { hostNetwork: true, phase: "Running" } };
const ignoring: Scenario = {
  before({ source, plugins }) {
    const declaring = { type: "macvlan", capabilities: { mac: true } };
    source.addNad("default/net-a", { ...network("net-a"), plugins: [declaring] });
    plugins.script("macvlan ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24")));
  },
  annotation: '[{"name": "net-a", "mac": "02:00:00:00:00:0a"}]',
};
const shadowed = { reason: "PlexusConfShadowed", message: "it takes 00-first.conf" } as const;
const ofNode = (conf: Condition): Scenario => ({ ...never, node: { conf } });

/** The record is that of an ADD whose last network is not attached. */
function unfinished(then: (lab: EngineLab) => void): Scenario {
  const after = (lab: EngineLab): void => {
    const { record, plan } = lab.records.writes.find(
      ({ record: { attachments } }) => attachments[0]?.state === "attached",
    ) as EngineLab["records"]["writes"][number];
    lab.records.put(record, plan);
    then(lab);
  };
  return { after };
}

test.each<[title: string, Scenario, ...says: string[]]>([
  ["a missing pod as PodNotFound", { ...never, noPod: true }, "no pod default/web"],
  [
    "a pod that is not scheduled as NotScheduled",
    { ...never, pod: { node: undefined as never } },
    "not bound to a node",
  ],
  ["a pod of another node as OtherNode", { ...never, pod: { node: "n2" } }, "n2", "serves n1"],
  ["networks of a hostNetwork pod as HostNetwork", onHost, "hostNetwork: true", "no effect"],
  [
    "a request that a plugin ignores as IgnoredRequest",
    ignoring,
    'ignored the key "mac"',
    "strictness: multus",
  ],
  [
    "a request that a plugin ignores although the pod starts as IgnoredRequest",
    { ...ignoring, config: { strictness: "multus" }, ...running },
    "net-a ignored mac (asked 02:00:00:00:00:0a, got 02:00:00:00:00:02)",
  ],
  [
    "an unreachable gateway as UnreachableGateway",
    { annotation: '[{"name": "net-a", "default-route": ["192.0.2.1"]}]' },
    "192.0.2.1",
    "default-route",
  ],
  [
    "an unavailable API server as ApiUnavailable",
    {
      before: (lab) => {
        lab.source.failure = new Error("cannot read pod default/web within 5000 ms (timeout)");
      },
    },
    "within 5000 ms",
  ],
  [
    "a pod that was replaced as PodReplaced",
    { before: (lab) => lab.source.removePod("default/web") },
    "deleted or replaced",
  ],
  [
    "a disk that is full as StateUnwritable",
    {
      before: (lab) => {
        const error = new CniError("StateUnwritable", "ENOSPC: no space left");
        lab.records.failWrite = { nth: 1, error };
      },
    },
    "ENOSPC",
    "/var/lib/plexus",
  ],
  [
    "a plugin that hangs as PluginTimeout",
    adding(ended("timeout")),
    "timed out after 60000 ms",
    "delegateTimeoutMs",
  ],
  [
    "a plugin that crashes as PluginCrashed",
    adding({ ...ended("signaled"), code: 11 }),
    "killed by signal 11",
  ],
  [
    "a plugin whose interpreter is missing as PluginNotExecutable",
    adding({ ...ended("failed", "cannot execute /bin/net: the interpreter"), code: 2 }),
    "Could not attach default/net-a (net1): cannot execute /bin/net: the interpreter. Correct",
    "or a static build of the plugin",
  ],
  ["a plugin that prints nothing as PluginOutput", adding(exited(0, "")), "plugin's maintainers"],
  [
    "a Plexus configuration that the runtime does not select as PlexusConfShadowed",
    {
      ...ofNode({ ...shadowed, step: "remove that file" }),
      ...running,
    },
    "does not call Plexus (it takes 00-first.conf): remove that file, then create the pod again",
  ],
  [
    "a node without a primary CNI as PlexusConfWaiting",
    ofNode({ reason: "PlexusConfWaiting", message: "no primary CNI", next: "pods wait" }),
    "does not call Plexus (no primary CNI; pods wait): run kubectl plexus doctor and correct what it names",
  ],
  [
    "a pod that is older than Plexus as NotAttached",
    { ...never, ...running },
    "without default/net-a: its sandbox was made when the container runtime did not call Plexus; delete the pod",
  ],
  ["a pod that has no ADD yet as NotAttachedYet", never, "pod's events"],
  [
    "a pod whose ADD failed in another process as MasterMissing",
    {
      ...never,
      after: ({ engine }) =>
        engine.noteFailedAdd(podName, {
          message: "Link not found",
          subject: "default/net-a (net1)",
        }),
    },
    "Could not attach default/net-a (net1): Link not found. Set the definition's master",
  ],
  [
    "a pod whose ADD runs as BeingAttached",
    unfinished((lab) => {
      lab.advance(30_000);
      lab.records.locked.add("c1");
    }),
    "since 2026-",
    "network default/net-a is not attached yet",
    "a DHCP server",
  ],
  [
    "a pod whose ADD was interrupted as AddInterrupted",
    unfinished((lab) => lab.advance(30_000)),
    "new sandbox",
  ],
  [
    "an annotation that was edited and is not in effect yet as HotPlugPending",
    {
      before: (lab) => {
        lab.config = { ...lab.config, hotPlug: true };
      },
      after: (lab) => lab.source.addNad("default/net-b", network("net-b", "macvlan")),
      pod: { phase: "Running", annotations: { [networksAnnotation]: "net-a,net-b" } },
    },
    "Network default/net-b is not plugged yet",
    "plexusd has not compared the pod",
  ],
  [
    "a status that could not be written as StatusRejected",
    {
      ...running,
      before: (lab) => {
        lab.publisher.failure = { message: "PATCH: HTTP 403 Forbidden", isRejected: true };
      },
    },
    "the API server rejects the network-status annotation: PATCH: HTTP 403 Forbidden",
  ],
  [
    "a pod that cannot be detached as PluginMissing",
    {
      after: async (lab) => {
        lab.plugins.setLookup("macvlan", { outcome: "missing", message: "" });
        await lab.del({ pod: "default/web/uid-1" });
      },
      pod: { phase: "Running", isTerminating: true },
    },
    "Could not detach default/net-a (net1)",
    '"macvlan"',
    "the runtime retries the DEL",
  ],
])("explain reports %s", async (...[title, scenario, ...says]) => {
  await expectAdvice(scenario, { finding: findingOf(title), says });
});

test.each<[title: string, Scenario, says: string]>([
  [
    "older than Plexus as NothingRequested",
    { ...never, ...running, annotation: "" },
    "lacks nothing",
  ],
  ["on the host's network as HostNetwork", { ...onHost, annotation: "" }, "asks for no networks"],
  ["attached as requested as Attached", running, "eth0=default-net, net1=default/net-a"],
  [
    "attached before its definition changed as DefinitionChanged",
    redefined,
    "refresh default/web net1",
  ],
  [
    "attached before its definition changed, without hot-plug as DefinitionChanged",
    { ...redefined, config: { hotPlug: false } },
    "to apply it, create the pod again",
  ],
  ["attached as NothingRequested", { ...running, annotation: "" }, "default network is attached"],
])("explain says that a pod lacks nothing: %s", async (...[title, scenario, ...says]) => {
  await expectAdvice(scenario, { finding: findingOf(title), says, ok: true });
});

test.each([
  ["PluginFailed", "the flux capacitor is empty", "Correct what the plugin's message", 999],
  ["IncompatibleCniVersion", "incompatible CNI versions; config is 1.0.0", "Set a cniVersion", 1],
] as const)("%s explains: %s", async (...[finding, message, step, code]) => {
  const start = 'Could not attach default/net-a (net1): plugin type="macvlan" failed (add): ';
  const says = [`${start}${message}. ${step}`];
  await expectAdvice(adding(failed(code, message)), { finding, says });
});

test("explain says who holds the addresses of an exhausted range, and names the node", async () => {
  const lease = (address: string, containerId: string) => ({
    address,
    containerId,
    path: `/leases/${address}`,
  });
  const leases: ExplainOptions["leases"] = async (network) =>
    network === "net-a" ? [lease("10.0.0.2", "c2"), lease("10.0.0.4", "0123456789abcdef")] : [];
  const before = async (lab: EngineLab): Promise<void> => {
    const annotations = { [networksAnnotation]: "net-a" };
    for (const [name, id] of Object.entries({ db: "c2", old: "c3" })) {
      const { uid } = lab.source.addPod({ name, annotations });
      lab.kernel.addNamespace(`/run/netns/${id}`);
      const env = { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` };
      await lab.add({ pod: `default/${name}/${uid}`, env });
    }
    const stored = await lab.records.load({ containerId: "c3", ifName: "eth0" });
    const { record, plan } = stored as StoredRecord;
    lab.records.put({ ...record, teardown: begunTeardown("2026-01-01T00:00:00Z") }, plan);
    const attachments = record.attachments.map(({ result: _, ...each }) => each);
    lab.records.put({ ...record, containerId: "c4", attachments }, plan);
    lab.plugins.script("macvlan ADD", failed(999, "no IP addresses available in range set"));
  };
  const { advice } = await explain({ before, leases });
  expect(advice).toMatchObject({ finding: "IpamExhausted", subject: "default/net-a (net1)" });
  expect(advice.sentence).toContain("records --leftovers n1 lists");
  expect(advice.sentence).toMatch(
    / On this node, its addresses are held by unrecorded container 0123456789ab \(10\.0\.0\.4\), default\/db \(\S+\), leftover default\/old \(\S+\)\. If .* remove its file, such as \/leases\/10\.0\.0\.4\.$/,
  );
});

const missingLink = failed(999, "Link not found");

test.each([
  [{ master: "eth9" }, missingLink, 'Link not found (the configuration names master "eth9"). Set'],
  [
    { master: "eth9", linkInContainer: true },
    missingLink,
    '(the configuration names master "eth9" in the pod). Set',
  ],
  [
    { links: [{ name: "net1" }, { name: "net2" }] },
    missingLink,
    '(the configuration names link "net1", link "net2"). Set',
  ],
  [{ master: "eth9" }, failed(999, 'lookup "eth9": Link not found'), "Link not found. Set"],
  [{ ipam: {} }, missingLink, "Link not found. Set"],
  [
    { master: "eth9" },
    exited(1, { code: 999, msg: "failed", details: "Link not found" }),
    'failed (the configuration names master "eth9"); Link not found. Set',
  ],
])("explain names the link that a plugin misses: %j", async (...[keys, outcome, says]) => {
  const before = (lab: EngineLab): void => {
    lab.plugins.script("macvlan ADD", outcome);
    const plugins = [{ type: "macvlan", ...keys }];
    lab.source.addNad("default/net-a", { ...network("net-a"), plugins });
  };
  await expectAdvice({ before }, { finding: "MasterMissing", says: [says] });
});

/** The node has the links `lo` and `br-trunk`, and net-a this plugin, whose ADD ends so. */
const onLinks = (plugin: JsonObject, outcome?: typeof missingLink): Scenario => ({
  before(lab) {
    lab.kernel.addNamespace("/proc/self/ns/net");
    lab.kernel.addLink("/proc/self/ns/net", "br-trunk");
    lab.source.addNad("default/net-a", { ...network("net-a"), plugins: [plugin] });
    if (outcome) lab.plugins.script("macvlan ADD", outcome);
  },
});
const lacksLink = 'the node has no link "br-trunc", also not as an alternative name';

test("explain names the link that the node lacks, and what may be meant, rather than the plugin's error", async () => {
  const scenario = onLinks({ type: "macvlan", master: "br-trunc" }, missingLink);
  const says = [
    `Cannot attach default/net-a: ${lacksLink}; did you mean br-trunk? Set the definit`,
  ];
  await expectAdvice(scenario, { finding: "MasterMissing", says });
  await expectAdvice({ ...scenario, add: false }, { finding: "MasterMissing", says });
});

test("explain says of a running pod that it will not start again without its link", async () => {
  const scenario = { ...running, ...onLinks({ type: "macvlan", master: "br-trunc" }) };
  const says = ["The pod runs, but will not start again: ", lacksLink];
  await expectAdvice(scenario, { finding: "MasterMissing", says });
});

test("explain does not take a bridge, which its plugin makes, for a reason", async () => {
  const scenario = onLinks({ type: "bridge", bridge: "br-trunc" });
  const { advice, problems } = await explain({ ...running, ...scenario });
  expect(advice).toMatchObject({ finding: "Attached", ok: true });
  expect(problems).toMatchObject([{ network: "default/net-a", isTolerated: true }]);
});

const deleted: Scenario = {
  ...running,
  after: (lab) => lab.source.removeNad("default/net-a"),
};

test.each<[title: string, Scenario, says: string]>([
  [
    "whose definition was deleted as NoNetworkFound",
    deleted,
    "The pod runs, but will not start again: there is no NetworkAttachmentDefinition default/net-a, which the pod asks for. Create the definition",
  ],
  [
    "during an outage of the API server as Attached",
    {
      ...running,
      after: (lab) => {
        lab.source.getNad = () => Promise.reject(new CniError("ApiUnavailable", "no answer"));
      },
    },
    "All networks are attached",
  ],
  [
    "that terminates as Attached",
    { ...deleted, pod: { phase: "Running", isTerminating: true } },
    "",
  ],
])("explain reports a running pod %s", async (...[title, scenario, says]) => {
  const finding = findingOf(title);
  const ok = finding === "Attached";
  await expectAdvice(scenario, { finding, says: [says], ok });
});

const ofMultus: Scenario = {
  ...never,
  pod: {
    phase: "Running",
    networkStatus: JSON.stringify([
      { name: "cbr0", interface: "eth0", ips: ["10.0.0.1"], default: true },
      { name: "default/net-a", interface: "net1", ips: ["10.1.0.2"] },
    ]),
  },
  before: (lab) => void lab.multusFiles.sandboxes.set("c9", "[]"),
};

test.each<[string, NonNullable<Scenario["after"]>, string]>([
  [
    "damaged",
    ({ records }) => records.damage({ containerId: "c1", ifName: "eth0" }, "record"),
    "unusable",
  ],
  [
    "lost",
    ({ records }) => records.remove({ containerId: "c1", ifName: "eth0" }),
    "its record is gone",
  ],
])("explain says of no running pod whose record is %s that it is fine", async (_, after, said) => {
  const says = ["does not know what the pod is attached to", said];
  const { pod } = ofMultus;
  await expectAdvice({ ...running, after }, { finding: "RecordDamaged", says });
  await expectAdvice({ pod: pod ?? {}, after }, { finding: "RecordDamaged", says });
});

test("explain reports a pod that Multus attached", async () => {
  const { networks, advice } = await explain(ofMultus);

  expect(networks).toMatchObject([
    { network: "default-net", ifName: "eth0", addresses: ["10.0.0.1"], attachedBy: "Multus" },
    { network: "default/net-a", ifName: "net1", addresses: ["10.1.0.2"], attachedBy: "Multus" },
  ]);
  expect(advice).toEqual({
    finding: "AttachedByOther",
    sentence:
      "The pod was attached by Multus, before Plexus served this node: eth0=default-net, net1=default/net-a.",
    ok: true,
  });
  const waiting = { reason: "PlexusConfWaiting", message: "no primary" } as const;
  const inactive = { ...ofMultus, node: { conf: waiting } };
  expect((await explain(inactive)).advice.finding).toBe("AttachedByOther");
  const other = await explain({ ...ofMultus, before: () => undefined });
  expect(other.advice.sentence).toContain("attached by another meta-plugin");
  const gone = { ...ofMultus, after: (lab: EngineLab) => lab.source.removeNad("default/net-a") };
  expect((await explain(gone)).advice.sentence).toContain("will not start again");
});

test.each([{ podIps: ["10.0.0.1"] }, { podIps: [] }])(
  "explain says that Plexus detached a pod which counts as running: $podIps",
  async (scene) => {
    const { networks, advice } = await explain({
      pod: { ...ofMultus.pod, podIps: scene.podIps },
      after: async (lab) => void (await lab.del({ pod: "default/web/uid-1" })),
    });
    expect(advice).toMatchObject({ finding: "NotAttachedYet", ok: false });
    expect(advice.sentence).toContain("The last sandbox of default/web was detached");
    expect(networks.map(({ ifName }) => ifName)).toEqual([undefined, undefined]);
  },
);

test("explain says of a running pod without an address that it is not attached yet", async () => {
  const pod = { phase: "Running", podIps: [] };
  const says = ["has not asked Plexus to attach the pod yet"];
  await expectAdvice({ ...never, pod }, { finding: "NotAttachedYet", says });
});

test("explain reads what another meta-plugin wrote as far as it can", async () => {
  const status = (...entries: object[]): Scenario => ({
    ...ofMultus,
    pod: { phase: "Running", networkStatus: JSON.stringify(entries) },
  });
  const net1 = { name: "default/net-a", interface: "net1", ips: ["10.1.0.2"] };
  const eth0 = { name: "cbr0", interface: "eth0", ips: ["10.0.0.1", 7], default: true };
  const [first, second] = (await explain(status(net1, eth0))).networks;
  expect(first).toMatchObject({ isDefault: true, ifName: "eth0", addresses: ["10.0.0.1"] });
  expect(second).toMatchObject({ isDefault: false, ifName: "net1", addresses: ["10.1.0.2"] });

  const odd = await explain(status({ ...net1, interface: 1, ips: "10.1.0.2" }, eth0));
  expect(odd.networks[1]).toEqual({
    ...{ network: "default/net-a", cniName: "net-a", isDefault: false, plugins: ["macvlan"] },
    ...{ addresses: [], attachedBy: "Multus" },
  });
  expect(odd.advice.sentence).toBe(
    "The pod was attached by Multus, before Plexus served this node: eth0=default-net.",
  );
  const nameless = await explain(status({ interface: "net9" }, net1, eth0));
  expect(nameless.networks[2]).toMatchObject({ network: "", ifName: "net9" });

  const before = ({ multusFiles }: EngineLab): void => {
    multusFiles.failure = new Error("EACCES");
  };
  const { advice } = await explain({ ...ofMultus, before });
  expect(advice.sentence).toContain("attached by another meta-plugin");
  const earlier = await explain({ ...ofMultus, pod: { ...ofMultus.pod, phase: "Pending" } });
  expect(earlier.networks[0]).not.toHaveProperty("attachedBy");
});

const misspelled: Scenario = {
  ...running,
  annotation: '[{"name": "net-a", "ip": ["10.1.1.9/24"]}]',
};

test("explain reports an unknown key of the annotation, with the key that was meant", async () => {
  const says = [
    'All networks are attached, but not as the annotation says: network selection annotation: element 1, key "ip": unknown key, ignored',
    "did you mean ips? Correct or remove the key",
  ];
  await expectAdvice(misspelled, { finding: "UnknownKey", says });
});

test("explain shows what plugins are asked for", async () => {
  const annotation = '[{"name": "net-a", "ips": ["10.1.1.9/24"], "mac": "02:00:00:00:00:02"}]';
  const config = { strictness: "multus" } as const;
  const { networks } = await explain({ ...running, annotation, config });

  expect(networks[0]).not.toHaveProperty("runtimeConfig");
  expect(networks[0]).not.toHaveProperty("cniArgs");
  const asked = {
    runtimeConfig: { ips: ["10.1.1.9/24"], mac: "02:00:00:00:00:02" },
    cniArgs: [
      ["MAC", "02:00:00:00:00:02"],
      ["IP", "10.1.1.9/24"],
    ],
  };
  expect(networks[1]).toMatchObject(asked);
  expect((await explain({ ...never, annotation, config })).networks[1]).toMatchObject(asked);
});

test("explain shows the device of a network", async () => {
  const devices = new FakeDevices().allocate("vendor.example/vf", "0000:03:02.1");
  const annotations = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
  const before = ({ source }: EngineLab): void =>
    source.addNad("default/net-a", network("net-a", "sriov"), annotations);
  const { networks } = await explain({ devices, before });

  expect(networks[1]).toMatchObject({ network: "default/net-a", device: "0000:03:02.1" });
});

test("explain shows networks with interface, addresses and plugins, and the published status", async () => {
  const status = [{ interface: "eth0" }, { interface: "net1" }];
  const pod = { ...running.pod, networkStatus: JSON.stringify(status) };
  const { networks, record, calls, published } = await explain({ pod });

  const [first, second] = [
    { isDefault: true, cniName: "default-net", ifName: "eth0" },
    { isDefault: false, cniName: "net-a", ifName: "net1" },
  ];
  expect(networks).toEqual([
    { ...first, network: "default-net", addresses: ["10.0.0.1/24"], plugins: ["ptp"] },
    { ...second, network: "default/net-a", addresses: ["10.0.0.2/24"], plugins: ["macvlan"] },
  ]);
  expect(record).toMatchObject({ containerId: "c1" });
  expect(calls.map(({ command }) => command)).toEqual(["ADD"]);
  expect(published).toEqual(["eth0", "net1"]);
});

test("explain says that another component has changed the status", async () => {
  const pod = { ...running.pod, networkStatus: JSON.stringify([{ interface: "eth0" }]) };
  const says = [
    "All networks are attached, but ",
    " could not be written yet: others have changed it",
  ];
  await expectAdvice({ ...running, pod }, { finding: "StatusPending", says });
});

test("explain compares the status with what Plexus has written, not with the interfaces asked for", async () => {
  const before = (lab: EngineLab): void =>
    lab.plugins.script("macvlan ADD", (call) => {
      lab.plugins.work(call);
      return exited(0, interfaceResult({ ...call, ifName: "dpdk0" }, "10.0.0.9/24"));
    });
  const networkStatus = JSON.stringify([{ interface: "eth0" }, { interface: "dpdk0" }]);
  const { advice } = await explain({ ...running, pod: { ...running.pod, networkStatus }, before });
  expect(advice).toMatchObject({ finding: "Attached", ok: true });
});

test("explain shows the networks of a record beside a configuration that is not known", async () => {
  const eth0 = { network: "default-net", isDefault: true, ifName: "eth0" };
  const net1 = { network: "default/net-a", cniName: "net-a", isDefault: false };
  const forget = (lab: EngineLab): void => {
    lab.conf = {};
  };
  const { networks, problems } = await explain({ ...running, after: forget });
  expect(networks).toEqual([
    { ...eth0, addresses: ["10.0.0.1/24"] },
    { ...net1, ifName: "net1", addresses: ["10.0.0.2/24"], plugins: ["macvlan"] },
  ]);
  expect(problems).toEqual([]);
  const starting = await explain({ ...never, after: forget });
  expect(starting.networks).toEqual([{ ...net1, plugins: ["macvlan"] }]);
  expect(starting.problems).toEqual([]);
  expect(starting.advice.finding).toBe("NotAttachedYet");
});

test.each<[title: string, Scenario, problems: string[]]>([
  ["the runtime's conf", { conf: { cniVersion: "1.0.0" } }, ["no default network is configured"]],
  ["the clusterNetwork of plexusd", { conf: {}, config: { clusterNetwork: "cbr0" } }, ["cbr0"]],
  ["neither", { conf: {} }, []],
  ["neither, as another network", { conf: {}, annotation: "net-b" }, ["default/net-b"]],
])("explain reports that the default network is missing from %s", async (...[, scenario, says]) => {
  expect((await explain({ ...never, ...scenario })).problems.map(({ message }) => message)).toEqual(
    says.map((part) => expect.stringContaining(part)),
  );
});

test("explain compares the default network by its name, except another meta-plugin's", async () => {
  const after = (lab: EngineLab): void => {
    lab.conf = { ...lab.conf, delegates: [network("other-net", "bridge")] };
  };
  const { networks, advice } = await explain({ ...running, after });
  expect(networks.map(({ network: name, ifName }) => [name, ifName])).toEqual([
    ...[
      ["other-net", undefined],
      ["default/net-a", "net1"],
    ],
    ["default-net", "eth0"],
  ]);
  expect(advice).toMatchObject({ ok: true });
  expect(advice.sentence).toContain("The configuration names other-net since then");
});

test("explain shows no networks of a pod that Plexus does not attach here", async () => {
  for (const pod of [{ node: "n2" }, { hostNetwork: true }]) {
    const { networks, problems } = await explain({ pod });
    expect({ networks, problems }).toEqual({ networks: [], problems: [] });
  }
  expect((await explain({ pod: { node: "n2" }, node: { name: "" } })).networks).toHaveLength(2);
});

test.each<[title: string, Partial<PodState>, containerId: string | undefined, finding: string]>([
  ["the pod", { phase: "Running" }, "c2", "Attached"],
  ["a pod that does not run, as others", {}, "c2", "SandboxesGivenUp"],
  ["a pod that was created again", { uid: "uid-0" }, undefined, "NotAttachedYet"],
  [
    "the new mirror of a static pod",
    {
      uid: "uid-0",
      annotations: { [networksAnnotation]: "net-a", [mirrorAnnotation]: "uid-1" },
      phase: "Running",
    },
    "c2",
    "Attached",
  ],
])("explain takes the newest record of %s", async (...[, pod, containerId, finding]) => {
  const after = ({ records }: EngineLab): void => {
    const [{ record, plan }] = records.writes as [EngineLab["records"]["writes"][number]];
    const done = records.writes.at(-1)?.record ?? record;
    const put = (id: string, clockMs: number, keys: Partial<PodState> = {}): void =>
      records.put(
        { ...done, containerId: id, clockMs, pod: { ...podName, uid: "uid-1", ...keys } },
        plan,
      );
    put("c2", 1000);
    put("c0", -1000);
    put("other-name", 2000, { name: "db" });
    put("other-namespace", 2000, { namespace: "shop" });
  };
  const { record, advice } = await explain({ after, pod });
  expect(record?.containerId).toBe(containerId);
  expect(advice.finding).toBe(finding);
});

test("explain shows the record that a pod has left which is gone", async () => {
  const { record, advice } = await explain({ noPod: true });
  expect(record?.containerId).toBe("c1");
  expect(advice.finding).toBe("PodNotFound");
});

test("explain names a default network that a pod lacks, of the namespace of such networks", async () => {
  const annotations = { "v1.multus-cni.io/default-network": "net-d" };
  const before = (lab: EngineLab): void =>
    lab.source.addNad("kube-system/net-d", network("d", "ptp"));
  const { advice } = await explain({ ...never, before, pod: { phase: "Running", annotations } });
  expect(advice.sentence).toContain("without kube-system/net-d: its sandbox");
});

test.each<[status: object[], published: string[] | undefined]>([
  [[{ interface: "eth0" }, { interface: 1 }, { name: "a" }], ["eth0"]],
  [[{ name: "a" }], undefined],
])("explain reads the interfaces of the published status %j", async (status, published) => {
  const explanation = await explain({ pod: { networkStatus: JSON.stringify(status) } });
  expect(explanation.published).toEqual(published);
});

test("explain shows no addresses of a network without any", async () => {
  const { networks } = await explain(
    adding((call) => exited(0, { ...interfaceResult(call, "10.1.1.9/24"), ips: undefined })),
  );
  expect(networks[1]).toMatchObject({ ifName: "net1", addresses: [] });
});

test("requests are shown without those that every plugin gets", () => {
  const capabilityArgs = {
    ...{ "io.kubernetes.cri.pod-annotations": {}, CNIDeviceInfoFile: "/f" },
    ...{ "my.io.kubernetes.": 1, CNIDeviceInfoFiles: 2, mac: "m" },
  };
  const cniArgs = ["K8S_POD_NAME", "IgnoreUnknown", "MY_K8S_", "IgnoreUnknownKeys", "IP"];
  expect(requestsOf({ capabilityArgs, cniArgs: cniArgs.map((key) => [key, "1"]) })).toEqual({
    runtimeConfig: { "my.io.kubernetes.": 1, CNIDeviceInfoFiles: 2, mac: "m" },
    cniArgs: [
      ["MY_K8S_", "1"],
      ["IgnoreUnknownKeys", "1"],
      ["IP", "1"],
    ],
  });
});

test("explain shows the annotation that is known while the API server does not answer", async () => {
  const after = ({ source }: EngineLab): void => {
    source.failure = new Error("cannot read pod default/web (no answer)");
  };
  const { annotation, pod } = await explain({ after });
  expect({ annotation, uid: pod.uid }).toEqual({ annotation: "net-a", uid: undefined });
});

test("explain executes no plugin", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web" });
  await lab.engine.explain(podName, {
    ...{ pods: { find: async () => undefined }, node: { name: "" }, conf: {}, searchPath: [] },
    findPlugin: async (type) => lab.plugins.find(type),
  });

  expect(lab.plugins.calls).toEqual([]);
  expect(lab.records.writes).toEqual([]);
});
