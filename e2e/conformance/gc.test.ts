import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { CallOutcome } from "../support/node/cni-call.ts";
import { type Execution, errorScript } from "../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest } from "../support/node/test.ts";
import type { TestPod } from "../support/node/test-pod.ts";
import { standaloneEnvironment } from "../support/plexusd.ts";
import { specifiedError } from "./calls.ts";

/** Makes a GC call with these keys in the configuration. */
type CollectGarbage = (keys: object) => Promise<CallOutcome>;

/** Before every test two pods are attached; afterwards both are detached, whatever the test did. */
const test = scriptedTest
  .extend("kept", ({ node }) => node.newPod({ networks: "alpha,beta,gamma" }))
  .extend("stale", ({ node }) => node.newPod({ networks: "alpha,beta,gamma" }))
  .extend("attached", { auto: true }, async ({ node, plugins, kept, stale }, { onCleanup }) => {
    for (const pod of [kept, stale]) await pod.mustAdd();
    // GC skips a sandbox that plexusd has locked for a moment, to note that its status is published.
    await node.statusesPublished();
    await plugins.clear();
    onCleanup(async () => {
      await plugins.reset();
      for (const pod of [kept, stale]) await pod.mustDel();
    });
  })
  .extend("gc", ({ node }): CollectGarbage => {
    return (keys) => node.call({ command: "GC", conf: node.conf(keys) });
  });

/** A network whose plugins have GC and STATUS. */
function collectable(name: string, types: string[], keys: object = {}): object {
  return { cniVersion: "1.1.0", name, plugins: types.map((type) => ({ type })), ...keys };
}

test.beforeAll(async ({ node }) => {
  node.defaultNetwork = collectable("default", ["default-first", "default-second"]);
  node.confExtra = { cniVersion: "1.1.0" };
  await node.nad("alpha", collectable("net-alpha", ["alpha"]));
  await node.nad("beta", { ...collectable("net-beta", ["beta"]), cniVersion: "1.0.0" });
  await node.nad("gamma", collectable("net-gamma", ["gamma"], { disableGC: true }));
});

const attachmentOf = (pod: TestPod, ifname: string) => ({ containerID: pod.containerId, ifname });

/** The valid attachments that each GC execution got, by plugin type. */
function validByType(executions: readonly Execution[]): Record<string, unknown> {
  const collected = executions.filter(({ command }) => command === "GC");
  return Object.fromEntries(
    collected.map(({ type, stdin }) => {
      const conf = JSON.parse(stdin ?? "");
      expect(conf["cni.dev/attachments"]).toEqual(conf["cni.dev/valid-attachments"]);
      return [type, conf["cni.dev/valid-attachments"]];
    }),
  );
}

const teardown = detachOrder("alpha", "beta", "gamma");

test.for(["cni.dev/valid-attachments", "cni.dev/attachments"])(
  "GC detaches a container that %s does not list, and passes each network all of its valid attachments [R-1.1-30] [R-1.1-31] [R-1.1-32]",
  async (key, { plugins, kept, stale, gc }) => {
    const unknown = { containerID: "of-another-plugin", ifname: "eth0" };
    const outcome = await gc({ [key]: [attachmentOf(kept, "eth0"), unknown] });
    expect(outcome).toMatchObject({ exitCode: 0, stdout: "" });
    const executions = await plugins.executions();
    const order = (await plugins.order()).filter((line) => line.startsWith("DEL"));
    expect(order).toEqual(teardown);
    expect(
      executions
        .filter(({ command }) => command === "DEL")
        .every((e) => e.cni.CNI_CONTAINERID === stale.containerId),
    ).toBe(true);
    const ofDefault = expect.toSatisfy((list: object[]) => {
      expect(list).toHaveLength(2);
      expect(list).toEqual(expect.arrayContaining([attachmentOf(kept, "eth0"), unknown]));
      return true;
    });
    // net-beta has version 1.0.0, which has no GC, and net-gamma disables it.
    expect(validByType(executions)).toEqual({
      "default-first": ofDefault,
      "default-second": ofDefault,
      alpha: [attachmentOf(kept, "net1")],
    });
  },
);

test("GC keeps what the Docker driver of the node has attached", async ({
  node,
  plugins,
  kept,
  gc,
}) => {
  const { stateDir, manifestsDir: manifests } = node;
  const driver = { stateDir: join(stateDir, "docker", "records"), socket: "/no/socket", manifests };
  const env = standaloneEnvironment(driver);
  await mkdir(driver.stateDir, { recursive: true });
  const container = await node.newPod({ networks: "alpha" });
  await container.mustAdd({ env });
  await plugins.clear();
  const list = [attachmentOf(kept, "eth0"), attachmentOf(container, "eth0")];
  expect(await gc({ "cni.dev/valid-attachments": list.slice(0, 1) })).toMatchObject({
    exitCode: 0,
  });
  expect(validByType(await plugins.executions())).toEqual({
    "default-first": list,
    "default-second": list,
    alpha: [attachmentOf(kept, "net1"), attachmentOf(container, "net1")],
  });
  await container.mustDel({ env });
});

test("GC continues after errors, reports all of them, and leaves what it could not detach to a DEL [R-1.1-31] [R-1.1-32] [R-1.1-33] [R-1.1-34] [R-0.4-14]", async ({
  plugins,
  kept,
  stale,
  gc,
}) => {
  await plugins.script("beta", "DEL", errorScript(101, "beta stays"));
  await plugins.script("default-first", "GC", errorScript(102, "first cannot collect"));
  await plugins.script("alpha", "GC", errorScript(103, "alpha cannot collect"));
  const outcome = await gc({ "cni.dev/valid-attachments": [attachmentOf(kept, "eth0")] });
  const { msg } = specifiedError(outcome);
  for (const part of ["beta stays", "first cannot collect", "alpha cannot collect"])
    expect(msg).toContain(part);
  const order = await plugins.order();
  for (const line of [...teardown, "GC default-first/", "GC default-second/", "GC alpha/"])
    expect(order).toContain(line);
  await plugins.reset();
  await stale.mustDel();
  expect(await plugins.order()).toContain("DEL beta/net2");
});

/** Long enough for a call that does not wait to start a plugin. */
const pauseMs = 300;

test.for([
  { command: "ADD", type: "alpha" },
  { command: "DEL", type: "alpha" },
])(
  "GC waits for a running $command, and keeps what that attached, although it is not listed [R-1.1-33]",
  async ({ command, type }, { node, plugins, kept, stale, gc }) => {
    const other = await node.newPod({ networks: "alpha" });
    if (command === "DEL") await other.mustAdd();
    await plugins.script(type, command, { hold: true });
    const operation = command === "ADD" ? other.add() : other.del();
    await plugins.reached(type, command);
    const valid = [kept, stale].map((pod) => attachmentOf(pod, "eth0"));
    const collection = gc({ "cni.dev/valid-attachments": valid });
    await sleep(pauseMs);
    expect((await plugins.order()).filter((line) => line.startsWith("GC"))).toEqual([]);
    await plugins.release(type, command);
    expect(await operation).toMatchObject({ exitCode: 0 });
    expect(await collection).toMatchObject({ exitCode: 0 });
    const { alpha } = validByType(await plugins.executions()) as { alpha: object[] };
    expect(alpha).toHaveLength(command === "ADD" ? 3 : 2);
    await other.mustDel();
  },
);

test("ADD and DEL wait for a running GC [R-1.1-33]", async ({ node, plugins, kept, stale, gc }) => {
  await plugins.script("alpha", "GC", { hold: true });
  const valid = [kept, stale].map((pod) => attachmentOf(pod, "eth0"));
  const collection = gc({ "cni.dev/valid-attachments": valid });
  await plugins.reached("alpha", "GC");
  const other = await node.newPod();
  const adding = other.add();
  const deleting = stale.del();
  await sleep(pauseMs);
  expect((await plugins.order()).filter((line) => /^(ADD|DEL)/.test(line))).toEqual([]);
  await plugins.release("alpha", "GC");
  for (const outcome of [collection, adding, deleting])
    expect(await outcome).toMatchObject({ exitCode: 0 });
  await other.mustDel();
});
