import { expect, test } from "vitest";
import type {
  CallRecord,
  ExplainedNetwork,
  ExplainedProblem,
} from "#engine/explain/explanation.ts";
import type { Condition } from "#lib/condition.ts";
import { advise } from "./advice.ts";
import type { Facts } from "./facts.ts";
import { adviceOf, couldNot } from "./sentence.ts";

const at = "2026-01-01T00:00:00Z";
const record = { createdAt: at, containerId: "c1" };
const ownPod = { namespace: "default", name: "web", uid: "uid-1", node: "n1" };
const running = { ...ownPod, hostNetwork: false, phase: "Running", isTerminating: false };
const pending = { ...running, phase: "Pending" };
const terminating = { ...running, isTerminating: true };

const eth0: ExplainedNetwork = { network: "cbr0", isDefault: true, ifName: "eth0" };
const net1: ExplainedNetwork = { network: "default/a", isDefault: false, ifName: "net1" };
const absent: ExplainedNetwork = { network: "default/b", isDefault: false };
const ofMultus = { attachedBy: "Multus" };

const active: Condition = { reason: "PlexusConfActive", message: "" };

/** A running pod that has what it asks for. */
const attached: Facts = {
  ...{ pod: running, node: { name: "n1", conf: active }, annotation: "a" },
  ...{ networks: [eth0, net1], problems: [], record, calls: [] },
  ...{ missing: [], hasAddress: true, isHotPluggable: false, stated: [] },
};
const unrecorded: Facts = { ...attached, record: undefined as never };

const added: CallRecord = { command: "ADD", at };
const addFailed: CallRecord = { command: "ADD", at, message: "no lease" };
const failedLater: CallRecord = { ...addFailed, at: "2026-01-01T00:01:00Z" };
const deleted: CallRecord = { command: "DEL", at };
const delFailed: CallRecord = { command: "DEL", containerId: "c1", at, message: "busy" };
const owing = { ...record, teardownError: "is stuck" };

const step = "Correct what the plugin's message names, in the definition or on the node";
const notDetached = `Could not detach the pod: busy. ${step}; the runtime retries the DEL.`;
const stuck = `Could not detach the pod: is stuck. ${step}; the runtime retries the DEL.`;
const notAttached = `Could not attach the pod: no lease. ${step}.`;
const all = "All networks are attached: eth0=cbr0, net1=default/a.";
const notYet =
  "The container runtime has not asked Plexus to attach the pod yet: see the pod's events (kubectl describe pod) for what it waits for.";
const noNewOne =
  "and the container runtime has not asked Plexus to attach a new one yet: see the pod's events (kubectl describe pod) for what it waits for.";

const invalid: ExplainedProblem = { reason: "InvalidAnnotation", message: "no JSON" };
const invalidText =
  "Could not use the annotation: no JSON. Correct the annotation, and create the pod again if it runs without hot-plug";
const gone: ExplainedProblem = { reason: "NoNetworkFound", message: "no default/a" };
const unknownKey: ExplainedProblem = {
  ...{ reason: "UnknownKey", message: "mtu", isTolerated: true },
};

const hotPlugged: Facts = { ...attached, isHotPluggable: true };
const plug = { ...absent, pending: "plug" as const };
const unplug = { ...net1, pending: "unplug" as const };
const plugFailed = { network: "default/b", subject: "default/b", message: "no VLAN" };
const attempted = { at, state: "failed" as const, problems: [], nextMs: 36_500 };
const noAgent: ExplainedProblem = { reason: "TryAgainLater", message: "no agent" };

test.each<[title: string, Facts, sentence: string]>([
  ["on a node whose name is not known", { ...attached, node: { name: "" } }, all],
  // The last ADD and DEL.
  [
    "whose network has no free address, on a node whose name is not known",
    { ...unrecorded, node: { name: "" }, calls: [{ ...addFailed, message: "no available IP" }] },
    'Could not attach the pod: no available IP. Make the network\'s range larger, or release addresses: kubectl plexus records --leftovers NODE lists those of deleted pods, and docs/operations/troubleshooting.md, "Leaked addresses", finds others.',
  ],
  [
    "whose ADD ends at this moment",
    { ...attached, pod: pending, record: { ...record, add: "running" } },
    `The pod is being attached since ${at}: if that takes long, check what the plugin waits for (its daemon, a DHCP server, a lock); delegateTimeoutMs limits its time.`,
  ],
  [
    "that could not be detached, of which plexusd saw no ADD",
    { ...unrecorded, pod: terminating, calls: [delFailed] },
    notDetached,
  ],
  ["whose sandbox stays", { ...attached, calls: [added, delFailed] }, notDetached],
  [
    "whose former sandbox stays",
    { ...attached, calls: [added, { ...delFailed, containerId: "c0" }] },
    all,
  ],
  [
    "that was detached, of which plexusd saw no ADD",
    { ...unrecorded, pod: pending, calls: [deleted] },
    `The last sandbox of default/web was detached, ${noNewOne}`,
  ],
  [
    "that terminates and was detached",
    { ...unrecorded, pod: terminating, missing: ["default/a"], calls: [added, deleted] },
    "The pod terminates and was detached, so that it has no networks any more.",
  ],
  [
    "that is gone for Plexus, after a failed DEL",
    { ...unrecorded, pod: pending, calls: [added, delFailed] },
    `The last sandbox of default/web has no record any more, ${noNewOne}`,
  ],
  ["of which there was no call", { ...unrecorded, pod: pending }, notYet],
  [
    "that could be neither attached nor detached",
    { ...attached, pod: pending, record: owing, calls: [addFailed, delFailed] },
    notAttached,
  ],
  [
    "that could be neither attached nor detached and terminates",
    { ...attached, pod: terminating, record: owing, calls: [addFailed, delFailed] },
    notDetached,
  ],
  [
    "of which a second sandbox could be detached",
    { ...attached, pod: terminating, record: owing, calls: [added, deleted] },
    stuck,
  ],
  [
    "whose second ADD was refused",
    { ...attached, calls: [{ ...failedLater, containerId: "c1" }] },
    all,
  ],
  [
    "whose later sandbox could not be attached",
    { ...attached, calls: [{ ...failedLater, containerId: "c2" }] },
    notAttached,
  ],
  [
    "of whose sandboxes the runtime forgot one after the other",
    { ...attached, pod: pending, calls: [added], replaced: 2 },
    "Plexus has attached 3 sandboxes of the pod, and the container runtime has given each of them up, as at a plugin that 00-plexus.conflist has after plexus: the pod's event FailedCreatePodSandBox says why.",
  ],
  ["of which the runtime forgot a sandbox once", { ...attached, calls: [added], replaced: 1 }, all],
  // An annotation that is invalid.
  [
    "with it",
    { ...attached, problems: [invalid] },
    `${invalidText}; the pod keeps its networks until then.`,
  ],
  ["that starts with it", { ...attached, pod: pending, problems: [invalid] }, `${invalidText}.`],
  ["that ends with it", { ...attached, pod: terminating, problems: [invalid] }, all],
  ["without a record with it", { ...unrecorded, problems: [invalid] }, `${invalidText}.`],
  // What the next ADD would find.
  [
    "that starts while its definition is deleted",
    { ...attached, pod: pending, problems: [gone] },
    all,
  ],
  [
    "that will start although a key is unknown",
    { ...unrecorded, pod: pending, problems: [unknownKey] },
    notYet,
  ],
  // Another meta-plugin.
  [
    "with networks of Multus, while the API server is unavailable",
    {
      ...{ ...unrecorded, sourceProblem: "no answer" },
      networks: [{ ...eth0, ...ofMultus }, absent],
    },
    "The pod was attached by Multus, before Plexus served this node: eth0=cbr0.",
  ],
  [
    "without networks, while the API server is unavailable",
    { ...unrecorded, networks: [], sourceProblem: "no answer" },
    "Pods and definitions cannot be looked up (no answer): check what the message names: the connection to the API server, the permissions of plexusd's service account, or the API server's load.",
  ],
  // Its end.
  [
    "that has succeeded",
    {
      ...{ ...unrecorded, pod: { ...running, phase: "Succeeded" }, problems: [gone] },
      ...{
        node: { name: "n1", conf: { reason: "PlexusConfMissing", message: "" } },
        calls: [added, deleted],
      },
    },
    "The pod has ended (Succeeded), so that it has no networks any more.",
  ],
  [
    "that has failed because of its networks",
    { ...unrecorded, pod: { ...running, phase: "Failed" }, calls: [addFailed] },
    notAttached,
  ],
  [
    "that has ended and is not detached yet",
    { ...attached, pod: { ...running, phase: "Failed" } },
    all,
  ],
  // Hot-plug.
  ["that starts, with an edit", { ...hotPlugged, pod: pending, networks: [eth0, unplug] }, all],
  [
    "without an edit while another operation runs",
    { ...hotPlugged, hotPlug: { ...attempted, state: "busy", problems: [noAgent] } },
    all,
  ],
  [
    "with two changes of which the second fails",
    {
      ...{ ...hotPlugged, networks: [eth0, unplug, plug] },
      hotPlug: { ...attempted, problems: [{ ...plugFailed, network: "default/c" }, plugFailed] },
    },
    `Could not plug default/b: no VLAN. ${step}; plexusd tries again in 37 s.`,
  ],
  [
    "with a network that is to go",
    { ...hotPlugged, networks: [eth0, unplug], hotPlug: attempted },
    "Network default/a (net1) is not unplugged yet; plexusd tries again in 37 s.",
  ],
  [
    "with a network that is being plugged",
    { ...hotPlugged, networks: [eth0, plug], hotPlug: { ...attempted, nextMs: 0 } },
    "Network default/b is not plugged yet; plexusd is trying again now.",
  ],
  // What it asks for.
  [
    "that requests nothing, with a network that all pods get",
    { ...attached, annotation: undefined as never },
    all,
  ],
  [
    "with an empty annotation",
    { ...attached, networks: [eth0] },
    "All networks are attached: eth0=cbr0.",
  ],
  [
    "that requests nothing",
    { ...attached, annotation: undefined as never, networks: [eth0] },
    "The default network is attached; the pod asks for no other (it has no annotation k8s.v1.cni.cncf.io/networks).",
  ],
])("the advice for a pod %s", (_, facts, sentence) => {
  expect(adviceOf(advise(facts)).sentence).toBe(sentence);
});

test.each([
  [500, "x".repeat(500)],
  [501, `${"x".repeat(500)}…`],
])("advice quotes at most 500 characters of an error: %j", (length, quoted) => {
  const { sentence } = adviceOf(couldNot("Could not attach", { message: "x".repeat(length) }));
  expect(sentence).toBe(`Could not attach the pod: ${quoted}. ${step}.`);
});

test("a network that was removed from the annotation is no lack", () => {
  const facts = { ...attached, networks: [eth0, { ...net1, isUnrequested: true }] };
  expect(adviceOf(advise(facts))).toMatchObject({ finding: "AnnotationChanged", ok: true });
});
