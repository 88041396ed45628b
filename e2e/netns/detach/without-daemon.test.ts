import { existsSync, readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { execa } from "execa";
import { expect } from "vitest";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { podObject } from "#kube/testing/objects.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { fileKinds } from "../../support/host-state.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, list, macvlan, ptp } from "../../support/networks.ts";
import { type CniCall, errorOf } from "../../support/node/cni-call.ts";
import { PlexusNode } from "../../support/node/plexus-node.ts";
import { ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest as test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { distPath } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";

needsPlexusd("it writes default.plan", () => {
  test("DEL without plexusd makes the same calls as with it, with and without a record", async ({
    node,
    plugins,
  }) => {
    const [a, b] = [
      await node.pod("with", { networks: "alpha,beta" }),
      await node.pod("none", { networks: "alpha,beta" }),
    ];
    const unrecorded = await node.pod("older");
    for (const pod of [a, b]) await pod.mustAdd();
    const defaultPlan = join(node.stateDir, "default.plan");
    await waitUntil(
      "plexusd has saved the default network's DEL, which it learns from a call",
      () => readFileSync(defaultPlan, "latin1").includes('"type":"default-first"'),
    );
    const inputsOfDel = async (pod: TestPod): Promise<string> => {
      await plugins.clear();
      await pod.mustDel();
      const executions = await plugins.executions();
      const sorted = (cni: object): object => Object.fromEntries(Object.entries(cni).toSorted());
      return JSON.stringify(executions.map(({ cni, stdin }) => ({ cni: sorted(cni), stdin })));
    };
    const byDaemon = await inputsOfDel(a);
    const unrecordedByDaemon = await inputsOfDel(unrecorded);
    await node.stopDaemon();
    const byShim = await inputsOfDel(b);
    expect(await plugins.order()).toEqual(detachOrder("alpha", "beta"));
    const unrecordedByShim = await inputsOfDel(unrecorded);
    expect(await plugins.order()).toEqual(detachOrder());
    await node.startDaemon();
    expect(byShim).toBe(
      byDaemon
        .replaceAll("c-with", "c-none")
        .replaceAll("ns-with", "ns-none")
        .replaceAll("=with", "=none"),
    );
    expect(unrecordedByShim).toBe(unrecordedByDaemon);
    expect(existsSync(b.recordPath)).toBe(false);
  });
});

needsPlexusd("two of them hand over", () => {
  test("two plexusd hand over: the first completes its running call, the second serves new ones", async ({
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
    const logged = node.log.length;
    const ended = node.stopDaemon("SIGTERM");
    await waitUntil("the first plexusd has the signal", () =>
      node.log.slice(logged).includes("calls are served until none is in flight"),
    );
    await second.mustAdd();
    await plugins.release("alpha", "ADD");
    expect(await call.outcome).toMatchObject({ exitCode: 0 });
    await ended;
    await first.mustDel();
    await second.mustDel();
  });
});

needsPlexusd("it drains", () => {
  test("plexusd says that it is stopping until its last call has ended", async ({
    node,
    plugins,
  }) => {
    const probe = (page: string) =>
      execa(distPath("plexus"), ["probe", adminSocketPath(node.socketPath), page], {
        reject: false,
      });
    const pod = await node.pod("drained", { networks: "alpha" });
    await plugins.script("alpha", "ADD", { hold: true });
    const call = node.start(pod.request("ADD"));
    await plugins.reached("alpha", "ADD");
    const ended = node.stopDaemon("SIGTERM");
    await waitUntil("plexusd is stopping", async () =>
      (await probe("/readyz")).stdout.includes("it is stopping"),
    );
    await setTimeout(500);
    expect((await probe("/readyz")).stdout).toContain("it is stopping");
    expect((await probe("/healthz")).exitCode).toBe(0);
    await plugins.release("alpha", "ADD");
    expect(await call.outcome).toMatchObject({ exitCode: 0 });
    await ended;
    await node.startDaemon();
    await pod.mustDel();
  });
});

test("after a reboot, DEL releases what is left although /run and the namespaces are gone", async () => {
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
  // A write that is killed leaves a temporary file.
  await pod.status();
  await real.stopDaemon("SIGKILL");
  await real.lab.deleteNetns(pod.netns);
  await rm(join(real.lab.dir, "run"), { recursive: true, force: true });
  await real.startDaemon();
  await pod.mustDel();
  expect(await real.changesSince(before, ["links", ...fileKinds])).toEqual([]);
});

needsPlexusd("it starts without the API server", () => {
  test("plexusd starts without the API server: STATUS succeeds only if ADD does", async () => {
    await using alone = await PlexusNode.create();
    const kubeconfig = join(alone.lab.dir, "kubeconfig");
    await writeFile(kubeconfig, unreachableCluster);
    await alone.startDaemon("--kubeconfig", kubeconfig, "--node", "node-1");
    const plugins = await ScriptedPlugins.create(alone.lab, "first");
    alone.cniPath = [plugins.binDir];
    alone.defaultNetwork = { ...list("default", { type: "first" }), cniVersion: "1.1.0" };
    const pod = await alone.pod("described", { uid: "uid-1" });
    const capability = "io.kubernetes.cri.pod-annotations";
    /** The errors of STATUS and ADD. */
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
    expect(await errors({})).toMatchObject([{ code: 50 }, { code: 11 }]);
  });
});

test("without plexusd, the runtime does not wait for the event", async ({ node }) => {
  await node.stopDaemon();
  await using api = await FakeApiServer.start();
  const { promise: answered, resolve } = Promise.withResolvers<void>();
  api.script({ when: ({ method }) => method === "POST", answer: answered });
  const annotations = { "k8s.v1.cni.cncf.io/networks": "missing" };
  api.put("pods", podObject("refused", { uid: "uid-refused", annotations }));
  const conf = node.conf({ kubeconfig: await api.kubeconfig({ token: "t" }) });
  const pod = await node.pod("refused", { uid: "uid-refused" });
  const env = { PLEXUS_STANDALONE: distPath("plexus-standalone") };
  const ended = await callOnMachine(node, { ...pod.request("ADD"), conf }, env);
  expect(ended.stdout).toContain("missing");
  expect(api.objects("events").size).toBe(0);
  resolve();
  await waitUntil("the event is written", () => api.objects("events").size > 0);
  await node.startDaemon();
});

/** Calls the shim where it reaches the machine's API server. Resolves when nothing has its output open. */
function callOnMachine(node: PlexusNode, call: CniCall, env: Record<string, string>) {
  return execa(node.shim, [], {
    input: JSON.stringify(call.conf),
    env: { ...node.environment(call), ...env },
    extendEnv: false,
    reject: false,
  });
}

/** Nothing listens on this port of a lab. */
const unreachableCluster = JSON.stringify({
  "current-context": "none",
  clusters: [{ name: "none", cluster: { server: "http://127.0.0.1:1" } }],
  users: [{ name: "none", user: {} }],
  contexts: [{ name: "none", context: { cluster: "none", user: "none" } }],
});
