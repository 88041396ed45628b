import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { linesOf, run, startPlexusd } from "#cli/testing/run.ts";
import { type NodeReport, nodeConditions } from "#daemon/admin/node-conditions.ts";
import type { PodProblem } from "#daemon/admin/node-status.ts";
import type { ExplainedNetwork, Explanation } from "#engine/explain/explanation.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import type { FindingReason } from "#lib/reasons.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

const explanation: Explanation = {
  pod: {
    namespace: "shop",
    name: "web",
    uid: "u",
    node: "n1",
    hostNetwork: false,
    phase: "Pending",
  },
  node: { name: "n1", conf: { reason: "PlexusConfActive", message: "delegating to 10-a.conf" } },
  annotation: "net-a",
  networks: [
    { network: "cbr0", isDefault: true, plugins: ["flannel"] },
    { network: "shop/net-a", isDefault: false },
  ],
  problems: [
    { network: "shop/net-a", reason: "NoNetworkFound", message: "there is no such definition" },
  ],
  published: ["eth0"],
  calls: [{ command: "ADD", at: "2026-01-01T00:00:00Z", code: 100, message: "no definition" }],
  advice: { finding: "NoNetworkFound", sentence: "Create it.", ok: false },
};

const report: NodeReport = {
  ...{ version: "1.2.3", commit: "abc", node: "n1", uptimeSeconds: 5 },
  ...{ state: "serving" as const, notReady: [] },
  conf: { state: "active", reason: "it is called", primary: "10-flannel.conflist" },
  unseenPaths: [],
  ...{ definitionsServed: true, lostDefinitions: [] },
  configWarnings: [],
  dirs: { cniConfDir: "/tmp", shimDir: "/nowhere", binDirs: ["/nowhere"], stateDir: "/tmp" },
  ...{ attachments: 4, leftovers: 0, callsInFlight: 1, damagedRecords: [] },
  ofMultus: { gone: [], damaged: [] },
  setAside: [],
  auxiliaryProblems: [],
  podProblems: [],
  failedAdds: [],
  settings: [
    { key: "logLevel", value: "debug", source: "/etc/plexus/config.yaml" },
    { key: "strictness", value: "multus", source: "default" },
    { key: "cniConfDir", value: "/srv", source: "command line" },
  ],
  configFile: "/etc/plexus/config.yaml",
};

/** A fake plexusd that gives these answers to plexusctl. */
async function plexusd(says: { explanation?: Explanation; report?: NodeReport } = {}) {
  const asked: string[] = [];
  const { socket } = await startPlexusd({
    pod: async ({ namespace, name }) => {
      asked.push(`${namespace}/${name}`);
      return says.explanation ?? explanation;
    },
    node: async () => {
      const given = says.report ?? report;
      return { ...given, conditions: nodeConditions(given) };
    },
  });
  return { socket, asked };
}

test.each([
  ["that is there without one", explanation.pod, ["annotation:  none"]],
  ["that cannot be read", { namespace: "shop", name: "web" }, []],
])("explain says that there is no annotation of a pod %s: %#", async (_, pod, said) => {
  const { annotation: _annotation, ...others } = explanation;
  const { socket } = await plexusd({ explanation: { ...others, pod } });
  const { out } = await run("explain", "--socket", socket, "shop/web");
  expect(out.split("\n").filter((line) => line.startsWith("annotation:"))).toEqual(said);
});

test("explain prints the advice first, then the evidence", async () => {
  const { socket, asked } = await plexusd();
  const { code, out } = await run("explain", "--socket", socket, "shop/web");

  expect(code).toBe(1);
  expect(asked).toEqual(["shop/web"]);
  expect(out.split("\n")).toEqual([
    "Create it.",
    "",
    "pod:         shop/web (Pending)",
    "node:        n1: delegating to 10-a.conf",
    "annotation:  net-a",
    "status:      lists eth0",
    "last ADD:    2026-01-01T00:00:00Z code 100: no definition",
    "",
    "NETWORK     INTERFACE  ADDRESSES  PLUGINS  STATE",
    "cbr0        -          -          flannel  not attached",
    "shop/net-a  -          -          -        there is no such definition",
  ]);
});

test("explain shows the requests that a network ignored in its state", async () => {
  const ignored = [{ key: "mac", asked: "02:00:00:00:00:01", got: "02:00:00:00:00:02" }];
  const network = { network: "shop/net-a", isDefault: false, ifName: "net1", ignored };
  const { socket } = await plexusd({
    explanation: { ...explanation, networks: [network], problems: [] },
  });
  const { out } = await run("explain", "--socket", socket, "shop/web");

  expect(out).toContain("attached, ignored mac (asked 02:00:00:00:00:01, got 02:00:00:00:00:02)");
});

test("explain shows how hot-plug works on the pod, and why networks are not changed", async () => {
  const failure = { message: "network shop/b (net2): no such VLAN", subject: "shop/b (net2)" };
  const at = "2026-01-01T00:00:00Z";
  const base = { isDefault: false, ifName: "net1" };
  const networks: ExplainedNetwork[] = [
    { network: "shop/b", isDefault: false, pending: "plug" },
    { network: "shop/c", isDefault: false, pending: "plug" },
    { network: "shop/d", ...base, pending: "unplug" },
    { network: "shop/b", ...base, pending: "unplug" },
    { network: "shop/j", ...base, isUnrequested: true },
  ];
  const failed = [{ message: "no agent" }, { ...failure, network: "shop/b" }];
  const hotPlug = { at, state: "failed", problems: failed, nextMs: 2500 } as const;
  const problems = explanation.problems.map((each) => ({ ...each, network: "shop/j" }));
  const { socket } = await plexusd({
    explanation: { ...explanation, networks, problems, hotPlug },
  });
  const { out } = await run("explain", "--socket", socket, "shop/web");
  expect(out).toContain(`hot-plug:    ${at} failed: no agent\n`);
  const states = out
    .split("\n")
    .slice(-networks.length)
    .map((line) => line.split(/ {2,}/).at(-1));
  expect(states).toEqual([
    "no such VLAN",
    "not plugged yet",
    "to be unplugged",
    "to be unplugged; no such VLAN",
    "attached, not requested any more; there is no such definition",
  ]);
});

test.each([
  [{ state: "settled" }, "done"],
  [{ state: "settled", problems: [{ message: "no JSON" }] }, "waits for an edit: no JSON"],
  [{ state: "busy", nextMs: 0 }, "busy"],
] as const)("explain prints the attempt %j", async (attempt, text) => {
  const hotPlug = { at: "T", problems: [], ...attempt };
  const { socket } = await plexusd({ explanation: { ...explanation, hotPlug } });
  const { out } = await run("explain", "--socket", socket, "shop/web");
  expect(out).toContain(`hot-plug:    T ${text}\n`);
});

test("explain shows what plugins are asked for, and who attached a network", async () => {
  const networks = [
    { network: "cbr0", isDefault: true, ifName: "eth0", attachedBy: "Multus" },
    {
      ...{ network: "shop/net-a", isDefault: false, ifName: "net1", plugins: ["macvlan"] },
      runtimeConfig: { ips: ["10.1.1.9/24"], portMappings: [{ hostPort: 80 }] },
      cniArgs: [["IP", "10.1.1.9/24"] as const],
    },
  ];
  const { socket } = await plexusd({ explanation: { ...explanation, networks, problems: [] } });
  const { out } = await run("explain", "--socket", socket, "shop/web");

  const [head, first, second] = out
    .split("\n")
    .slice(-3)
    .map((line) => line.split(/ {2,}/));
  expect(head).toEqual(["NETWORK", "INTERFACE", "ADDRESSES", "PLUGINS", "ASKED FOR", "STATE"]);
  expect(first).toEqual(["cbr0", "eth0", "-", "-", "-", "attached by Multus"]);
  const asked = 'ips=10.1.1.9/24 portMappings=[{"hostPort":80}] CNI_ARGS=IP=10.1.1.9/24';
  expect(second).toEqual(["shop/net-a", "net1", "-", "macvlan", asked, "attached"]);
});

test("explain -o json prints everything; the default namespace is default", async () => {
  const ok = {
    ...explanation,
    advice: { finding: "Attached", sentence: "All is well.", ok: true },
  } as const;
  const { socket, asked } = await plexusd({ explanation: ok });
  const { code, out } = await run("explain", "-o", "json", "--socket", socket, "web");

  expect(code).toBe(0);
  expect(asked).toEqual(["default/web"]);
  expect(JSON.parse(out)).toEqual(ok);
});

test("explain reports that plexusd does not answer, in text and JSON", async () => {
  const socket = join(tmpdir(), "plexus-nowhere", "plexus.sock");
  const { code, out } = await run("explain", "--socket", socket, "shop/web");
  const json = await run("explain", "-o", "json", "--socket", socket, "shop/web");

  expect([code, json.code]).toEqual([3, 3]);
  expect(out).toContain("plexusd does not answer at");
  expect(out).toContain("the logs of its containers install and plexusd");
  expect(JSON.parse(json.out).advice.finding).toBe("DaemonUnavailable");
});

test("without plexusd, explain says for how long plexus-standalone serves pods", async () => {
  const dir = await temporaryDirectory();
  const { kubeconfig } = standalonePaths(dir);
  await mkdir(dirname(kubeconfig), { recursive: true });
  const explained = async (exp: number): Promise<string> => {
    const claims = Buffer.from(JSON.stringify({ iat: 0, exp: Date.now() / 1000 + exp }));
    const user = { token: `h.${claims.toString("base64url")}.s` };
    await writeFile(kubeconfig, JSON.stringify({ users: [{ user }] }));
    return (await run("explain", "--socket", "/nowhere/x", "--state-dir", dir, "shop/web")).out;
  };
  const serves = "plexus-standalone serves pods that start here, for 29 min at least";
  expect(await explained(1799)).toContain(serves);
  expect(await explained(-1)).toContain("pods that start here wait for it");
});

test("explain and doctor reject output formats other than text, json and yaml", async () => {
  expect((await run("explain", "-o", "wide", "a/b")).code).toBe(2);
  expect((await run("doctor", "-o", "wide")).code).toBe(2);
});

test("status prints the counts of plexusd, and why it is not ready", async () => {
  const { socket } = await plexusd({ report: { ...report, notReady: ["it stops", "no CNI"] } });
  const lines = [
    ...["plexusd 1.2.3 (abc)", "state: serving", "node configuration: active"],
    ...["attachments: 4", "leftovers: 0"],
    "pods with other networks than requested: 0",
    "calls being served: 1",
  ];
  expect(await run("status", "--socket", socket)).toEqual({
    code: 1,
    out: [...lines, "not ready: it stops", "not ready: no CNI"].join("\n"),
    err: "",
  });
  const ready = await run("status", "--socket", (await plexusd()).socket);
  expect(ready).toMatchObject({ code: 0, out: [...lines, "ready"].join("\n") });
  const away = await run("status", "--socket", "/nowhere/plexus.sock");
  expect(away).toMatchObject({ code: 1, err: expect.stringContaining("does not answer") });
});

test("status counts the definitions that were deleted with their CRD", async () => {
  const { socket } = await plexusd({ report: { ...report, lostDefinitions: ["a/1", "a/2"] } });
  const { out } = await run("status", "--socket", socket);
  expect(out.split("\n")).toContain("definitions deleted with their CRD: 2");
});

async function doctor(says: Partial<NodeReport>) {
  const { socket } = await plexusd({ report: { ...report, ...says } });
  const { code, out } = await run("doctor", "-o", "json", "--socket", socket);
  return { code, findings: JSON.parse(out) as { check: string; verdict: string; text: string }[] };
}

function podProblem(reason: FindingReason, message: string): PodProblem {
  return { pod: "shop/web", reason, message };
}

const active = { state: "active" as const, reason: "delegating" };

test("status names the plugins that run after Plexus", async () => {
  const conf = { ...active, chained: ["istio-cni", "x"] };
  const { socket } = await plexusd({ report: { ...report, conf } });
  const { out } = await run("status", "--socket", socket);
  expect(out.split("\n")).toContain("plugins after Plexus: istio-cni, x");
});

test.each([
  ["not ready", { notReady: ["it is stopping"] }, "plexusd: problem", "it is stopping"],
  [
    "shadowed",
    { conf: { state: "shadowed" as const, reason: "the runtime takes 00-a.conf" } },
    "node configuration: problem",
    "00-a.conf; remove that file, or give it a name that sorts after 00-plexus.conflist; if it is also the default network, new pods then wait up to a minute",
  ],
  [
    "without its primary's configuration",
    {
      conf: {
        state: "waiting" as const,
        reason: "10-a.conflist is not there",
        next: { file: "20-b.conflist", at: new Date(Date.now() + 40_000).toISOString() },
      },
    },
    "node configuration: problem",
    "10-a.conflist is not there; new pods on this node fail or wait until 20-b.conflist is taken over in ",
  ],
  [
    "patched by a service mesh's agent",
    { conf: { ...active, chained: ["istio-cni"], omitted: ["istio-cni"] } },
    "plugins after Plexus: ok",
    "runs istio-cni once for each pod; the default network leaves out istio-cni, which its file has too",
  ],
  [
    "with a mesh's plugin only in the primary's file, although its agent has gone",
    { conf: { ...active, primary: "10-a.conflist", omitted: ["istio-cni"] } },
    "plugins after Plexus: warning",
    "no pod gets istio-cni: its agent has removed it from 00-plexus.conflist, but not from 10-a.conflist; remove it there",
  ],
  [
    "with a broken file of the auxiliary CNI chain",
    { auxiliaryProblems: ["the auxiliary CNI chain /net.d/vendor is left out: a.conf: no JSON"] },
    "auxiliary CNI chain: warning",
    "/net.d/vendor is left out: a.conf: no JSON; new pods start without it; correct or remove",
  ],
  [
    "with a mesh's plugin that is not installed",
    { conf: { ...active, chained: ["linkerd-cni"], chainProblem: "linkerd-cni: not installed" } },
    "plugins after Plexus: problem",
    "linkerd-cni: not installed; start the agent that installs the plugin, or remove",
  ],
  [
    "given an invalid configuration",
    { configProblem: "config.yaml:\n  3: logLevle: unknown key" },
    "configuration: problem",
    "config.yaml: 3: logLevle: unknown key; plexusd keeps the previous configuration, but does not start again",
  ],
  ["given a valid configuration", {}, "configuration: ok", "in effect"],
  [
    "given a key of an earlier release",
    { configWarnings: ["config.yaml:3: statusOf: it has no effect any more"] },
    "configuration: warning",
    "config.yaml:3: statusOf: it has no effect any more",
  ],
  [
    "without API",
    { sourceProblem: "the pods have not been listed" },
    "pods and definitions: problem",
    "API server",
  ],
  [
    "with leftovers",
    { leftovers: 2, node: "node-7" },
    "records: warning",
    "of sandboxes that are gone: 2; kubectl plexus records --leftovers node-7 names them",
  ],
  [
    "with damaged records",
    { damagedRecords: ["c1 is unusable"] },
    "records: problem",
    "c1 is unusable",
  ],
  [
    "with a record that a DEL could not read",
    { setAside: ["c1@eth0.record.damaged"] },
    "records: warning",
    "c1@eth0.record.damaged is what no DEL could read; release by hand what it held",
  ],
  [
    "with what Multus has left",
    { ofMultus: { gone: ["c1", "c2"], damaged: [] } },
    "Multus: warning",
    "of pods that are gone: 2 (c1, c2); if they stay,",
  ],
  [
    "with a damaged file of Multus",
    { ofMultus: { gone: [], damaged: ["/var/lib/cni/multus/c1: no JSON"] } },
    "Multus: warning",
    "/var/lib/cni/multus/c1: no JSON; when the pod has ended, release by hand what it held",
  ],
  [
    "with unattached pods",
    { podProblems: [podProblem("NotAttached", "runs without shop/a: delete the pod")] },
    "running pods: problem",
    "shop/web: runs without shop/a: delete the pod; kubectl plexus explain shop/web says",
  ],
  [
    "with many unattached pods",
    { podProblems: Array(7).fill(podProblem("NotAttached", "runs without shop/a")) },
    "running pods: problem",
    "2 more pods; events ",
  ],
  [
    "with a network that could not be plugged",
    { podProblems: [podProblem("InterfaceAddRejected", "network shop/a (net1): no such VLAN")] },
    "running pods: problem",
    "shop/web: network shop/a (net1): no such VLAN; kubectl plexus explain shop/web says what to do",
  ],
  [
    "with a network that could not be unplugged",
    { podProblems: [podProblem("FailedRemovingInterface", "network shop/a (net1): busy")] },
    "running pods: warning",
    "shop/web: network shop/a (net1): busy",
  ],
  [
    "without pods that lack a network",
    {},
    "running pods: ok",
    "none lacks a network that it asked for when it started",
  ],
  [
    "with pods that could not be attached",
    {
      failedAdds: [
        {
          ...{ reason: "IpamExhausted", network: "shop/a", message: "no IP addresses available" },
          step: "run kubectl plexus records --leftovers NODE",
          pods: ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"],
        },
      ],
    },
    "attaching pods: problem",
    "failed in the last ten minutes: 6 (a/1, a/2, a/3, a/4, a/5, and 1 more): network shop/a, IpamExhausted: no IP addresses available; run kubectl plexus records --leftovers n1",
  ],
  [
    "with a pod whose owner has made a mistake",
    {
      failedAdds: [
        {
          ...{ reason: "NoNetworkFound", network: "shop/a", message: "there is none" },
          ...{ step: "correct the annotation", pods: ["a/1"] },
        },
      ],
    },
    "attaching pods: warning",
    "NoNetworkFound: there is none; correct the annotation",
  ],
  [
    "without a failed ADD",
    {},
    "attaching pods: ok",
    "no pod lacks its networks after an ADD that failed in the last ten minutes (strictness: multus)",
  ],
  [
    "with unmounted paths",
    { unseenPaths: ["confDir: /a is not mounted"] },
    "mounts: problem",
    "/a is not mounted",
  ],
  [
    "without the CRD",
    { definitionsServed: false },
    "definitions: warning",
    "the API server knows no NetworkAttachmentDefinitions: pods only get those kept; apply their CRD: kubectl apply -f crds/",
  ],
  [
    "without the definitions of a CRD that was deleted",
    { definitionsServed: false, lostDefinitions: ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"] },
    "definitions: problem",
    "deleted with their CRD: 6 NetworkAttachmentDefinitions (a/1, a/2, a/3, a/4, a/5, and 1 more); pods of this node still get these networks; run kubectl plexus restore",
  ],
] as const)("doctor checks a node that is %s", async (...[, says, finding, text]) => {
  const { findings } = await doctor(says as Partial<NodeReport>);

  const [check, verdict] = finding.split(": ");
  const reason = expect.any(String);
  expect(findings).toContainEqual({ check, reason, verdict, text: expect.stringContaining(text) });
});

test("config show has the settings in effect, and their sources", async () => {
  const { socket } = await plexusd({ report });
  const { code, out } = await run("config", "show", "--socket", socket);
  expect(code).toBe(0);
  expect(out.split("\n").slice(0, 2)).toEqual([
    "KEY         VALUE     FROM",
    'logLevel    "debug"   /etc/plexus/config.yaml',
  ]);
});

test.each([
  ["logLevel: debug\n", "ok", "in effect"],
  ["cniConfDir: /etc/cni/net.d\nlogLevel: debug\n", "ok", "in effect"],
  ["logLevel: warn\nhotPlug: true\n", "warning", "other values of logLevel, hotPlug than"],
  ["", "warning", "other values of logLevel than"],
  ["logLevle: debug\n", "problem", "plexus-config:1: logLevle: unknown key"],
])("doctor compares what is in effect with the ConfigMap %j", async (configMap, verdict, text) => {
  const { socket } = await plexusd({ report });
  const args = ["doctor", "-o", "json", "--expected-config", "--socket", socket];
  const { out } = await linesOf(args, configMap);
  const findings = JSON.parse(out.join("\n")) as readonly { check: string }[];
  const found = findings.filter(({ check }) => check === "configuration");
  expect(found).toMatchObject([{ verdict, text: expect.stringContaining(text) }]);
});

test("doctor tells pods that run without their networks first, then the worst", async () => {
  const podProblems = [podProblem("NotAttached", "runs without shop/a")];
  const { findings } = await doctor({ podProblems, notReady: ["it stops"], leftovers: 2 });
  expect(findings.slice(0, 2).map(({ check }) => check)).toEqual(["running pods", "plexusd"]);
  const verdicts = [...new Set(findings.map(({ verdict }) => verdict))];
  expect(verdicts).toEqual(["problem", "warning", "ok"]);
});

test("doctor finds nothing wrong with a network that only other nodes have", async () => {
  const message = 'the node has no link "eth7"';
  const network = { network: "shop/mv", usable: false, reason: "MasterMissing", message } as const;
  const { socket } = await startPlexusd({
    node: async () => ({ ...report, conditions: nodeConditions(report) }),
    networks: async () => [network],
  });
  const { out } = await run("doctor", "-o", "json", "--socket", socket);
  const finding = { check: "network shop/mv", reason: "NetworkUnavailable", verdict: "ok" };
  expect(JSON.parse(out)).toContainEqual({ ...finding, text: message });
});

test("doctor reports a missing shim and missing directories", async () => {
  const { code, findings } = await doctor({});
  const problems = findings.filter(({ verdict }) => verdict === "problem");

  expect(code).toBe(1);
  expect(problems.map(({ check }) => check)).toEqual(["shim", "/nowhere"]);
  expect(findings.find(({ check }) => check === "/tmp")?.text).toMatch(/^owner 0:0, mode 1?777/);
});

test("doctor checks the directories even if plexusd does not answer", async () => {
  const socket = join(tmpdir(), "plexus-nowhere", "plexus.sock");
  const { code, out } = await run("doctor", "--socket", socket);

  expect(code).toBe(1);
  expect(out).toMatch(/^PROBLEM {2}plexusd +plexusd does not answer at/);
  expect(out).toContain("/opt/cni/bin");
});
