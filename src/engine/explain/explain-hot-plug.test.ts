import { expect, test } from "vitest";
import { type HotPlugOutcome, problemsOf } from "#engine/hotplug/reports/outcome.ts";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { type EngineLab, network, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, failed, halfway } from "#engine/testing/fake-plugins.ts";
import { missing } from "#engine/testing/pod-lab.ts";
import type { Json } from "#lib/json.ts";
import type { ExplainOptions } from "./explain-pod.ts";
import type { Explanation } from "./explanation.ts";

const podName = { namespace: "default", name: "web" };

/** What is explained of the pod, with an attempt that ended so; the next one is due in 37 s. */
function explain(
  { lab, pod }: HotPlugLab,
  outcome: HotPlugOutcome,
  options: Partial<ExplainOptions> = {},
): Promise<Explanation> {
  const lastAttempt = {
    ...{ at: "2026-01-01T00:00:00Z", state: outcome.state, problems: problemsOf(outcome) },
    ...(outcome.state !== "settled" && { nextMs: 36_500 }),
  };
  return lab.engine.explain(podName, {
    pods: { find: async () => ({ ...pod(), node: "n1" }) },
    node: { name: "n1" },
    ...{ conf: lab.conf, searchPath: ["/opt/cni/bin"], lastAttempt },
    findPlugin: async (type) => lab.plugins.find(type),
    ...options,
  });
}

/** `interface network: what is pending` of each network but the default one. */
function rows({ networks }: Explanation): string[] {
  return networks.slice(1).map(({ ifName = "-", network: name, pending, isUnrequested }) => {
    return `${ifName} ${name}: ${pending ?? (isUnrequested ? "unrequested" : "")}`;
  });
}

interface Scene {
  readonly start: Json;
  readonly edit: Json;
  readonly prepare?: (lab: EngineLab, pod: HotPlugLab) => void | Promise<void>;
  /** Attempts after the edit. @default 1 */
  readonly attempts?: number;
  readonly isOff?: boolean;
  readonly finding: string;
  readonly says: string | RegExp;
  readonly shows: readonly string[];
}

test.each<[title: string, Scene]>([
  [
    "a mistyped plugin",
    {
      ...{ start: "a", edit: "a,b", finding: "PluginMissing" },
      prepare: ({ plugins }) => plugins.setLookup("macvlan", missing),
      says: /^Could not plug default\/b: failed to find plugin "macvlan".*\. Install the plugin.*; plexusd tries again in 37 s\.$/,
      shows: ["net1 default/a: ", "- default/b: plug"],
    },
  ],
  [
    "a mistyped definition, which keeps a network that no element names",
    {
      ...{ start: "a,b", edit: "b,bb@x1", finding: "NoNetworkFound" },
      says: "Could not plug default/bb (x1): there is no NetworkAttachmentDefinition default/bb, which the pod asks for; did you mean b? Create the definition, or correct name and namespace in the annotation; plexusd tries again in 37 s.",
      shows: ["net2 default/b: ", "- default/bb: plug", "net1 default/a: unplug"],
    },
  ],
  [
    "an annotation that is no JSON",
    {
      ...{ start: "a,b", edit: "[{", finding: "InvalidAnnotation" },
      says: /^Could not use the annotation: .*\. Correct the annotation, and create the pod again if it runs without hot-plug; the pod keeps its networks until then\.$/,
      shows: ["net1 default/a: ", "net2 default/b: "],
    },
  ],
  [
    "a default route that the running pod keeps",
    {
      ...{ start: [{ name: "a", "default-route": [] }], edit: "b" },
      finding: "InvalidRequest",
      says: /^Could not unplug default\/a \(net1\): the pod's default route is on net1, .*create the pod again/,
      shows: ["- default/b: plug", "net1 default/a: unplug"],
    },
  ],
  [
    "a network that can be neither plugged nor detached",
    {
      ...{ start: "", edit: "b", finding: "PluginFailed", attempts: 2 },
      prepare: (lab) => {
        lab.plugins.script("macvlan ADD", halfway(lab, failed(7, "no such VLAN")));
        lab.plugins.script("macvlan DEL", failed(7, "no server answers"));
      },
      says: /^Could not plug default\/b \(net1\): .*no server answers\. .*; plexusd tries again in 37 s\.$/,
      shows: ["- default/b: plug", "net1 default/b: unplug"],
    },
  ],
  [
    "a network that cannot be unplugged",
    {
      ...{ start: "a,b", edit: "b", finding: "PluginFailed" },
      prepare: ({ plugins }) => plugins.script("bridge DEL", failed(7, "busy")),
      says: /^Could not unplug default\/a \(net1\): .*busy\. .*; plexusd tries again in 37 s\.$/,
      shows: ["net2 default/b: ", "net1 default/a: unplug"],
    },
  ],
  [
    "no agent",
    {
      ...{ start: "a", edit: "a,b", finding: "AgentUnavailable" },
      prepare: (_, { hosts }) => {
        hosts.isConnected = false;
      },
      says: /^Could not change the networks of the pod: no agent .*\. Install `plexus agent --attach` on this node.*; plexusd tries again in 37 s\.$/,
      shows: ["net1 default/a: ", "- default/b: plug"],
    },
  ],
  [
    "an agent that restarts",
    {
      ...{ start: "a", edit: "a,b", finding: "TryAgainLater" },
      prepare: (_, { hosts }) => {
        hosts.refusal = new SandboxUnavailableError("busy", "plexus agent is restarting");
      },
      says: "Could not change the networks of the pod: plexus agent is restarting. Wait; plexusd tries again in 37 s.",
      shows: ["net1 default/a: ", "- default/b: plug"],
    },
  ],
  [
    "a network of which the record does not say who requested it",
    {
      ...{ start: "a,b", edit: "b", finding: "AnnotationChanged" },
      prepare: ({ records }) =>
        records.changeAttachments(() => ({ selection: undefined as never })),
      says: /Neither annotation nor configuration name default\/a \(net1\) any more/,
      shows: ["net2 default/b: ", "net1 default/a: unrequested"],
    },
  ],
  [
    "a network that an edit removed, without hot-plug",
    {
      ...{ start: "a,b", edit: "b", finding: "AnnotationChanged", isOff: true },
      says: /Neither annotation nor configuration name default\/a \(net1\) any more: to detach it, create the pod again\.$/,
      shows: ["net2 default/b: ", "net1 default/a: unrequested"],
    },
  ],
  [
    "another network in place of one, without hot-plug",
    {
      ...{ start: "a", edit: "b", finding: "AnnotationChanged", isOff: true },
      says: "The pod was attached without network default/b, which the annotation names since then: networks are attached when a pod starts, so create it again.",
      shows: ["- default/b: ", "net1 default/a: unrequested"],
    },
  ],
  [
    "a network that an edit removed beside a missing one, without hot-plug",
    {
      ...{ start: "a,b", edit: "b,nowhere", finding: "NoNetworkFound", isOff: true },
      says: /^The pod runs, but will not start again: there is no NetworkAttachmentDefinition default\/nowhere/,
      shows: ["net2 default/b: ", "- default/nowhere: ", "net1 default/a: unrequested"],
    },
  ],
  [
    "a network whose record has lost its last update",
    {
      ...{ start: "a", edit: "b", finding: "RecordDamaged", isOff: true },
      prepare: ({ records }) => records.change(() => ({ hasLostUpdate: true })),
      says: /^Plexus does not know what the pod is attached to: its record has lost its last update; delete the pod/,
      shows: ["- default/b: ", "net1 default/a: unrequested"],
    },
  ],
  [
    "an edit that is in effect",
    {
      ...{ start: "a", edit: "a,b", finding: "Attached" },
      says: "All networks are attached: eth0=default-net, net1=default/a, net2=default/b.",
      shows: ["net1 default/a: ", "net2 default/b: "],
    },
  ],
])("explain shows %s of a running pod", async (_, scene) => {
  const pod = await hotPlugLab(scene.start);
  await scene.prepare?.(pod.lab, pod);
  if (scene.isOff === true) pod.lab.config = { ...pod.lab.config, hotPlug: false };
  let outcome = await pod.edit(scene.edit);
  for (let n = 1; n < (scene.attempts ?? 1); n++) outcome = await pod.again();
  const explanation = await explain(pod, outcome);
  const { finding, sentence } = explanation.advice;
  expect({ finding, sentence, shows: rows(explanation) }).toEqual({
    finding: scene.finding,
    sentence: typeof scene.says === "string" ? scene.says : expect.stringMatching(scene.says),
    shows: scene.shows,
  });
});

test("explain says that an interface of a running pod has disappeared", async () => {
  const pod = await hotPlugLab("a");
  const message = "interface net1 of network default/a has disappeared: delete the pod";
  const outcome = await pod.again();
  pod.lab.engine.findings.state(pod.pod(), "interfaces", [{ reason: "InterfaceLost", message }]);
  expect((await explain(pod, outcome)).advice).toEqual({
    ...{ finding: "InterfaceLost", ok: false },
    sentence: "Interface net1 of network default/a has disappeared: delete the pod.",
  });
});

test("explain says that a running pod keeps its default network", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.source.addNad("kube-system/other", network("other", "bridge"));
  const annotations = { ...pod.pod().annotations, "v1.multus-cni.io/default-network": "other" };
  pod.state = { annotations };
  expect((await explain(pod, await pod.again())).advice).toEqual({
    ...{ finding: "AnnotationChanged", ok: false },
    sentence:
      "The pod was attached without network kube-system/other, which the annotation names since then: networks are attached when a pod starts, so create it again.",
  });
});

test.each([{ hotPlug: false }, { hotPlug: ["other"] }])(
  "explain and doctor name what could not be unplugged, with $hotPlug, too",
  async (config) => {
    const pod = await hotPlugLab("a");
    pod.lab.plugins.script("bridge DEL", failed(7, "busy"));
    const outcome = await pod.edit("");
    expect((await explain(pod, outcome)).networks[1]).toMatchObject({
      ...{ network: "default/a", isDefault: false, ifName: "net1" },
      pending: "unplug",
    });
    pod.lab.config = { ...pod.lab.config, ...config };
    const off = await pod.again();
    expect(off).toEqual({ state: "settled", operations: [] });
    const explanation = await explain(pod, off);
    expect(rows(explanation)).toEqual(["net1 default/a: unplug"]);
    expect(explanation.advice).toEqual({
      ...{ finding: "HotPlugPending", ok: false },
      sentence:
        "Network default/a (net1) is not unplugged yet; switch hotPlug on again for the pod, or delete it.",
    });
    const [found] = pod.lab.engine.findings.of(podName);
    expect(found).toMatchObject({
      ...{ reason: "FailedRemovingInterface", message: "default/a (net1) is not unplugged" },
      step: "switch hotPlug on again for the pod, or delete it",
    });
    pod.lab.config = { ...pod.lab.config, hotPlug: true };
    pod.lab.plugins.script("bridge DEL", exited(0, ""));
    expect(await pod.again()).toMatchObject({ state: "settled" });
    expect(pod.lab.engine.findings.of(podName)).toEqual([]);
  },
);

test.each([
  { from: ["extra"], to: [], hotPlug: true, says: "any more: to detach it" },
  { from: ["extra"], to: [], hotPlug: false, says: "any more: to detach it" },
  { from: [], to: ["extra"], hotPlug: true, says: "since then: to attach it" },
  { from: [], to: ["extra"], hotPlug: false, says: "since then: to attach it" },
])("a running pod is fine after defaultNetworks changed: $from, $to, $hotPlug", async (scene) => {
  const prepare = ({ source }: EngineLab): void => {
    for (const name of ["cluster", "extra"])
      source.addNad(`kube-system/${name}`, network(name, "ptp"));
  };
  const config = { clusterNetwork: "cluster", defaultNetworks: scene.from };
  const pod = await hotPlugLab("", {}, { conf: {}, config, prepare });
  pod.lab.config = { ...pod.lab.config, defaultNetworks: scene.to, hotPlug: scene.hotPlug };
  const { advice } = await explain(pod, await pod.again());
  expect(advice).toMatchObject({ finding: "AnnotationChanged", ok: true });
  expect(advice.sentence).toContain(`${scene.says}, create the pod again`);
  expect(pod.lab.engine.findings.all()).toEqual([]);
  expect(pod.newEvents().join()).not.toContain("NotManaged");
});

test("explain shows what is to be plugged before the first attempt, and what all pods get", async () => {
  const prepare = ({ source }: EngineLab): void =>
    source.addNad("kube-system/cluster", network("cluster", "ptp"));
  const pod = await hotPlugLab("a", {}, { conf: { clusterNetwork: "cluster" }, prepare });
  const outcome = await pod.again();
  pod.lab.source.addNad("kube-system/extra", network("extra", "bridge"));
  pod.lab.config = { ...pod.lab.config, defaultNetworks: ["extra"] };
  pod.state = { annotations: { "k8s.v1.cni.cncf.io/networks": "a,b" } };
  expect(rows(await explain(pod, outcome, { lastAttempt: undefined }))).toEqual([
    "- kube-system/extra: ",
    "net1 default/a: ",
    "- default/b: plug",
  ]);
});

test("explain shows no changes of a sandbox that is being detached, or has no record", async () => {
  const pod = await hotPlugLab("a");
  const outcome = await pod.again();
  pod.state = { annotations: { "k8s.v1.cni.cncf.io/networks": "b" } };
  pod.lab.records.beginDel(sandbox, "t");
  const shown = ["- default/b: ", "net1 default/a: unrequested"];
  expect(rows(await explain(pod, outcome))).toEqual(shown);
  pod.state = { ...pod.state, uid: "uid-2" };
  expect(rows(await explain(pod, outcome))).toEqual(["- default/b: "]);
});
