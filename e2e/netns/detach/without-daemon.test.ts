import { existsSync, readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect } from "vitest";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import { fileKinds } from "../../support/host-state.ts";
import { bridge, list, macvlan, ptp } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { PlexusNode } from "../../support/node/plexus-node.ts";
import { errorScript, ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest as test } from "../../support/node/test.ts";
import { cniPluginDir, distPath } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";

const dels = detachOrder("alpha", "beta");
/** Sends the oldest daemon a SIGTERM; returns when it takes no more calls, with the promise of its end. */
async function drain(node: PlexusNode): Promise<{ ended: Promise<void> }> {
  const logged = node.log.length;
  const ended = node.stopDaemon("SIGTERM");
  await waitUntil("the daemon takes no more calls", () =>
    node.log.slice(logged).includes("those in flight are served"),
  );
  return { ended };
}

const soon = { PLEXUS_WAIT_MS: "100" };

test("a daemon that is restarted between ADD and DEL knows what to detach", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("restarted", { networks: "alpha,beta" });
  await pod.mustAdd();
  await node.stopDaemon();
  await node.startDaemon();
  expect(errorOf(await pod.add()).code).toBe(103);
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels);
});

test("DEL without a daemon replays the plan with the calls that the daemon would make", async ({
  node,
  plugins,
}) => {
  const [a, b] = [
    await node.pod("with", { networks: "alpha,beta" }),
    await node.pod("none", { networks: "alpha,beta" }),
  ];
  for (const pod of [a, b]) await pod.mustAdd();
  await plugins.clear();
  await a.mustDel();
  const byDaemon = await plugins.executions();
  await plugins.clear();
  await node.stopDaemon();
  await b.mustDel();
  const byShim = await plugins.executions();
  await node.startDaemon();
  expect(await plugins.order()).toEqual(dels);
  const inputs = (executions: typeof byShim): string =>
    JSON.stringify(executions.map(({ env, stdin }) => ({ env, stdin })));
  expect(inputs(byShim)).toBe(
    inputs(byDaemon)
      .replaceAll("c-with", "c-none")
      .replaceAll("ns-with", "ns-none")
      .replaceAll("=with", "=none"),
  );
  expect(existsSync(b.recordPath)).toBe(false);
});

test("a plan of which a step failed is kept and repeated whole; the daemon's DEL completes it", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("in-part", { networks: "alpha,beta" });
  await pod.mustAdd();
  await node.stopDaemon();
  await plugins.clear();
  await plugins.script("alpha", "DEL", errorScript(60, "busy"));
  const error = errorOf(await pod.del());
  expect(error).toMatchObject({ code: 102, msg: expect.stringContaining("alpha") });
  expect(await plugins.order(), "the others are not stopped").toEqual(dels);
  await plugins.clear();
  errorOf(await pod.del());
  expect(await plugins.order(), "DELs can be repeated").toEqual(dels);
  await plugins.unscript("alpha", "DEL");
  expect(existsSync(pod.recordPath)).toBe(true);
  await node.startDaemon();
  await pod.mustDel();
  expect(existsSync(pod.recordPath)).toBe(false);
});

test("a plan whose namespace is gone is replayed without one", async ({ node, plugins }) => {
  const pod = await node.pod("gone", { networks: "alpha,beta" });
  await pod.mustAdd();
  await node.stopDaemon();
  await node.lab.deleteNetns(pod.netns);
  await plugins.clear();
  await pod.mustDel();
  await node.startDaemon();
  const namespaces = (await plugins.executions()).map((e) => e.cni.CNI_NETNS);
  expect(namespaces).toEqual(["", "", "", ""]);
});

/** Waits until plexusd keeps the DEL of this default network, which it learns from a call. */
async function keepsDefaultPlan(node: PlexusNode, type: string): Promise<void> {
  const path = join(node.stateDir, "default.plan");
  await waitUntil(`default.plan names ${type}`, () =>
    readFileSync(path, "latin1").includes(`"type":"${type}"`),
  );
}

test("DEL without a daemon is success where everything was detached before", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("detached", { networks: "alpha" });
  await pod.mustAdd();
  await pod.mustDel();
  await plugins.clear();
  await node.stopDaemon();
  await pod.mustDel();
  await node.startDaemon();
  expect(await plugins.order()).toEqual([]);
});

test("DEL without a daemon of a pod without a record makes the default network's calls as the daemon would", async ({
  node,
  plugins,
}) => {
  const [known, older] = [await node.pod("known-1"), await node.pod("older-1")];
  await known.mustAdd();
  await known.mustDel();
  await keepsDefaultPlan(node, "default-first");
  await plugins.clear();
  await older.mustDel();
  const byDaemon = await plugins.executions();
  await plugins.clear();
  await node.stopDaemon();
  await older.mustDel();
  const byShim = await plugins.executions();
  await node.lab.run("ip", "-n", older.netns, "link", "add", "net1", "type", "bridge");
  const error = errorOf(await older.del());
  await node.startDaemon();
  expect(byShim.length).toBeGreaterThan(1);
  expect(byShim.map(({ cni, stdin }) => ({ cni, stdin }))).toEqual(
    byDaemon.map(({ cni, stdin }) => ({ cni, stdin })),
  );
  expect(error).toMatchObject({ code: 11, msg: expect.stringContaining("further interfaces") });
});

test("without a daemon pods older than Plexus, and ADDs that it missed, leave nothing", async () => {
  await using real = await PlexusNode.create();
  real.defaultNetwork = ptp("older-default", 36);
  await real.startDaemon();
  const [known, older, missed] = [
    await real.pod("known"),
    await real.pod("older"),
    await real.pod("missed"),
  ];
  await known.mustAdd();
  await known.mustDel();
  await keepsDefaultPlan(real, "ptp");
  await real.stopDaemon();
  const before = await real.hostState();
  const { plugins, ...network } = real.defaultNetwork as { plugins: object[] };
  const added = await real.lab.try([join(cniPluginDir(), "ptp")], {
    env: real.environment(older.request("ADD")),
    extendEnv: false,
    input: JSON.stringify({ ...network, ...plugins[0] }),
  });
  expect(added).toMatchObject({ exitCode: 0 });
  expect(await real.changesSince(before)).not.toEqual([]);
  expect(errorOf(await missed.add({ env: soon })).code).toBe(11);
  for (const pod of [older, missed]) await pod.mustDel();
  expect(await real.changesSince(before)).toEqual([]);
});

test("without a daemon ADD and CHECK fail after their wait with code 11, GC at once, STATUS with code 50", async ({
  node,
}) => {
  const pod = await node.pod("waits");
  await node.stopDaemon();
  const conf = { ...node.conf(), cniVersion: "1.1.0" };
  expect(errorOf(await pod.add({ env: soon }))).toMatchObject({
    code: 11,
    msg: expect.stringContaining("plexusd"),
  });
  expect(errorOf(await pod.check({ env: soon }))).toMatchObject({
    code: 11,
    msg: expect.stringContaining("after 100 ms"),
  });
  expect(errorOf(await node.call({ command: "GC", conf })).code).toBe(11);
  expect(errorOf(await node.call({ command: "STATUS", conf, env: soon })).code).toBe(50);
  expect((await node.call({ command: "VERSION", conf })).exitCode).toBe(0);
  await node.startDaemon();
});

test("an ADD that comes while the daemon restarts waits for it and succeeds", async ({ node }) => {
  const pod = await node.pod("patient", { networks: "alpha" });
  await node.stopDaemon();
  const call = node.start(pod.request("ADD", { env: { PLEXUS_WAIT_MS: "120000" } }));
  await waitUntil("the ADD is under way", () => pod.isLocked());
  await node.startDaemon();
  expect(await call.outcome).toMatchObject({ exitCode: 0 });
  await pod.mustDel();
});

test("SIGTERM: calls in flight are served to their end, then the daemon goes", async ({
  node,
  plugins,
}) => {
  const pods = await Promise.all([1, 2].map((n) => node.pod(`flight-${n}`, { networks: "alpha" })));
  await plugins.script("alpha", "ADD", { hold: true });
  const calls = pods.map((pod) => node.start(pod.request("ADD")));
  await waitUntil(
    "both ADDs have come to alpha",
    async () => (await plugins.executions()).filter((e) => e.type === "alpha").length === 2,
  );
  const { ended } = await drain(node);
  await plugins.release("alpha", "ADD");
  for (const call of calls) expect(await call.outcome).toMatchObject({ exitCode: 0 });
  await ended;
  await node.startDaemon();
  for (const pod of pods) await pod.mustDel();
});

test("two daemons hand over: the first ends what it began, the second takes what comes", async ({
  node,
  plugins,
}) => {
  const [first, second] = [
    await node.pod("over-1", { networks: "alpha" }),
    await node.pod("over-2", { networks: "beta" }),
  ];
  await plugins.script("alpha", "ADD", { hold: true });
  const call = node.start(first.request("ADD"));
  await plugins.reached("alpha", "ADD");
  await node.startDaemon();
  const { ended } = await drain(node);
  await second.mustAdd();
  await plugins.release("alpha", "ADD");
  expect(await call.outcome).toMatchObject({ exitCode: 0 });
  await ended;
  await first.mustDel();
  await second.mustDel();
});

test("after a reboot, with /run and the namespaces gone and the state kept, DEL releases what is left", async () => {
  await using real = await PlexusNode.create();
  await real.startDaemon();
  await real.lab.addUplink("up0");
  real.defaultNetwork = bridge("reboot-default", 33, { ipMasq: true });
  await real.nad("m", macvlan("reboot-macvlan", 34));
  await real.nad("p", ptp("reboot-ptp", 35));
  const warm = await real.pod("warm", { networks: "m,p" });
  await warm.mustAdd();
  await warm.mustDel();
  const pod = await real.pod("rebooted", { networks: "m,p" });
  const before = await real.hostState();
  await pod.mustAdd();
  await real.stopDaemon("SIGKILL");
  await real.lab.deleteNetns(pod.netns);
  await rm(join(real.lab.dir, "run"), { recursive: true });
  await real.startDaemon();
  await pod.mustDel();
  expect(await real.changesSince(before, ["links", ...fileKinds])).toEqual([]);
});

test("plexusd that starts while the API server is unavailable: STATUS says what ADD can do", async () => {
  await using alone = await PlexusNode.create();
  const kubeconfig = join(alone.lab.dir, "kubeconfig");
  await writeFile(kubeconfig, unreachableCluster);
  await alone.startDaemon("--kubeconfig", kubeconfig, "--node", "node-1");
  const plugins = await ScriptedPlugins.create(alone.lab, "first");
  alone.cniPath = [plugins.binDir];
  alone.defaultNetwork = { ...list("default", { type: "first" }), cniVersion: "1.1.0" };
  const pod = await alone.pod("described", { uid: "uid-1" });
  const capability = "io.kubernetes.cri.pod-annotations";
  /** What STATUS and ADD print where they fail. */
  const errors = async (extra: object, annotations?: object): Promise<unknown[]> => {
    const conf = { ...alone.conf(extra), cniVersion: "1.1.0" };
    const runtimeConfig = annotations && { [capability]: annotations };
    const status = await alone.call({ command: "STATUS", conf });
    const add = await pod.add({ conf: { ...conf, runtimeConfig } });
    return [status, add].map((each) => (each.exitCode === 0 ? undefined : errorOf(each)));
  };
  const describing = { capabilities: { [capability]: true } };
  expect(await errors(describing, {})).toEqual([undefined, undefined]);
  await pod.mustDel();
  const neither = [{ code: 50 }, { code: 11 }];
  expect(await errors({})).toMatchObject(neither);
  const byName = { ...describing, clusterNetwork: "red", delegates: undefined };
  expect(await errors(byName, {})).toMatchObject(neither);
});

test("without plexusd at all a later call writes the status that an ADD could not", async ({
  node,
}) => {
  await node.stopDaemon();
  // The lab does not reach the server, the machine does.
  await using api = await FakeApiServer.start();
  api.put("pods", podObject("thin", { uid: "uid-thin" }));
  const pod = await node.pod("thin", { uid: "uid-thin" });
  const capability = "io.kubernetes.cri.pod-annotations";
  const conf = {
    ...node.conf({ kubeconfig: await api.kubeconfig({ token: "t" }) }),
    cniVersion: "1.1.0",
  };
  const env = { PLEXUS_STANDALONE: distPath("plexus-standalone") };
  const described = { ...conf, runtimeConfig: { [capability]: {} } };
  expect(await pod.add({ conf: described, env })).toMatchObject({ exitCode: 0 });
  expect(api.seen).toEqual([]);
  const status = { command: "STATUS", conf } as const;
  await execa(node.shim, [], {
    input: JSON.stringify(conf),
    env: { ...node.environment(status), ...env },
    extendEnv: false,
    reject: false,
  });
  expect(api.objects.get("pods/default/thin")).toMatchObject({
    metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": expect.any(String) } },
  });
  await pod.mustDel({ env });
  await node.startDaemon();
});

/** Nothing listens on this port of a lab. */
const unreachableCluster = JSON.stringify({
  "current-context": "none",
  clusters: [{ name: "none", cluster: { server: "http://127.0.0.1:1" } }],
  users: [{ name: "none", user: {} }],
  contexts: [{ name: "none", context: { cluster: "none", user: "none" } }],
});
