import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Result } from "execa";
import { expect } from "vitest";
import { begunTeardown } from "#engine/record/record.ts";
import { formatRecord, parseRecord } from "#records/record-file.ts";
import { Daemon } from "../../support/daemon.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { errorOf, type RunningCall } from "../../support/node/cni-call.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { errorScript, type ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { scriptedTest as test } from "../../support/node/test.ts";
import type { TestPod } from "../../support/node/test-pod.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { shimEnvironment } from "../../support/plexusd.ts";
import { waitForExit } from "../../support/processes.ts";
import { waitUntil } from "../../support/wait.ts";

test("a failed DEL that is never repeated is reported, and another pod's DEL, not its ADD, completes it after the backoff", async ({
  node,
  plugins,
}) => {
  const left = await leftover(node, plugins, "never-repeated");
  expect(await leftovers(node)).toContain("default/never-repeated");
  expect(await leftovers(node)).toContain("the switch is busy");
  await addAndDel(node, "too-early");
  expect(await plugins.order("c-never-repeated"), "its backoff is not over").toEqual([]);
  await endBackoff(node, left);
  const next = await node.pod("next", { networks: "beta" });
  await next.mustAdd();
  expect(await plugins.order("c-never-repeated"), "an ADD does not retry it").toEqual([]);
  await next.mustDel();
  expect(await plugins.order("c-never-repeated")).toEqual(["DEL alpha/net1"]);
  expect(left.isRecorded).toBe(false);
  expect(await leftovers(node)).not.toContain("default/never-repeated");
});

/** How a DEL ends that the container runtime never repeats. */
const interruptions: readonly {
  readonly name: string;
  readonly what: string;
  readonly end: (node: PlexusNode, call: RunningCall) => Promise<void> | void;
}[] = [
  {
    name: "shim-killed",
    what: "its shim is killed",
    end: (_, { pid }) => void process.kill(pid, "SIGKILL"),
  },
  {
    name: "both-killed",
    what: "the engine and then its shim are killed",
    end: async (node, call) => {
      process.kill(call.pid, "SIGSTOP");
      await node.killEngine(call);
      process.kill(call.pid, "SIGKILL");
    },
  },
];

test.for(interruptions)(
  "if $what during a DEL, that DEL is reported, and completed during another pod's DEL",
  async ({ name, end }, { node, plugins }) => {
    const pod = await node.pod(name, { networks: "alpha" });
    await pod.mustAdd();
    await plugins.script("alpha", "DEL", { hold: true });
    const call = node.start(pod.request("DEL"));
    const held = await plugins.reached("alpha", "DEL");
    await end(node, call);
    await call.outcome;
    await waitForExit(held.pid);
    await plugins.unscript("alpha", "DEL");
    await expectCompleted(node, { pod, plugins });
  },
);

test("a DEL whose replay fails is reported, and completed during another pod's DEL", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("replay-failed", { networks: "alpha" });
  await pod.mustAdd();
  await plugins.script("alpha", "DEL", errorScript(60, "busy"));
  await node.stopDaemon();
  expect(errorOf(await pod.del()).code).toBe(102);
  await plugins.unscript("alpha", "DEL");
  await expectCompleted(node, { pod, plugins });
});

needsPlexusd("the agent connects to it", () => {
  test("a connected `plexus agent` completes a failed DEL when its backoff ends, without any call", async ({
    node,
    plugins,
  }) => {
    const left = await leftover(node, plugins, "by-agent");
    await endBackoff(node, left);
    const env = { ...shimEnvironment(paths(node)), CNI_PATH: plugins.binDir };
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const agent = Daemon.start({
      name: "plexus agent",
      command: node.lab.command("env", ...variables, node.shim, "agent"),
      logFile: join(node.lab.dir, "agent.log"),
    });
    try {
      await waitUntil("the leftover is detached", () => !left.isRecorded);
    } finally {
      await agent.stop("SIGTERM");
    }
    expect(await plugins.order(left.containerId)).toEqual(["DEL alpha/net1"]);
  });
});

needsPlexusd("its agent retries them", () => {
  test("plexusctl gc retries every leftover immediately, and reports each result", async ({
    node,
    plugins,
  }) => {
    await copyFile(node.shim, join(plugins.binDir, "plexus"));
    const lefts = [
      await leftover(node, plugins, "first-left"),
      await leftover(node, plugins, "second-left"),
    ];
    await plugins.script("alpha", "DEL", errorScript(77, "still busy"));
    const failing = await gc(node, plugins);
    expect(failing.exitCode).toBe(1);
    expect(failing.stdout).toMatch(
      /^default\/first-left \(c-first-left@eth0\): remains: .*still busy\ndefault\/second-left .*busy$/,
    );
    await plugins.unscript("alpha", "DEL");
    expect(await gc(node, plugins)).toMatchObject({
      exitCode: 0,
      stdout: lefts
        .map(({ name, containerId }) => `default/${name} (${containerId}@eth0): detached`)
        .join("\n"),
    });
    for (const left of lefts) expect(left.isRecorded).toBe(false);
    expect(await gc(node, plugins)).toMatchObject({ exitCode: 0, stdout: "nothing is left over" });
  });
});

test("a GC with a hanging plugin does not block other pods, and leaves unfinished sandboxes as leftovers", async ({
  node,
  plugins,
}) => {
  const stale = [
    await node.pod("stale-1", { networks: "alpha" }),
    await node.pod("stale-2", { networks: "alpha" }),
  ];
  for (const pod of stale) await pod.mustAdd();
  await plugins.clear();
  await plugins.script("alpha", "DEL", { hold: true });
  for (const { netns } of stale) await node.lab.deleteNetns(netns);
  const valid = { "cni.dev/valid-attachments": [] };
  const call = node.start({ command: "GC", conf: node.conf({ cniVersion: "1.1.0", ...valid }) });
  await plugins.reached("alpha", "DEL");
  // What hangs is not ended while the other pod starts.
  process.kill(call.pid, "SIGSTOP");
  const other = await node.pod("beside-gc", { networks: "beta" });
  await other.mustAdd({ env: { PLEXUS_LOCK_MS: "2000" } });
  process.kill(call.pid, "SIGCONT");
  expect(errorOf(await call.outcome)).toMatchObject({
    code: 102,
    msg: expect.stringContaining("1 stale sandboxes were not reached in 5 s"),
  });
  const [, ...left] = (await leftovers(node)).split("\n");
  expect(left).toHaveLength(2);
  expect(left.join("\n")).toContain("garbage collection did not list its sandbox, since 20");
  await plugins.unscript("alpha", "DEL");
  for (const pod of [...stale, other]) await pod.mustDel();
});

needsPlexusd("its status counts leftovers", () => {
  test("plexusctl status counts a DEL whose shim was killed, but none that runs", async ({
    node,
    plugins,
  }) => {
    const pod = await node.pod("counted", { networks: "alpha" });
    await pod.mustAdd();
    await plugins.script("alpha", "DEL", { hold: true });
    const call = node.start(pod.request("DEL"));
    const held = await plugins.reached("alpha", "DEL");
    expect(await status(node)).toContain("leftovers: 0");
    process.kill(call.pid, "SIGKILL");
    await call.outcome;
    await waitForExit(held.pid);
    await plugins.unscript("alpha", "DEL");
    expect(await status(node)).toContain("leftovers: 1");
    await pod.mustDel();
    expect(await status(node)).toContain("leftovers: 0");
  });
});

/** Expects a leftover, as the pod's DEL is not repeated, and that another pod's DEL detaches it. */
async function expectCompleted(
  node: PlexusNode,
  { pod, plugins }: { readonly pod: TestPod; readonly plugins: ScriptedPlugins },
): Promise<void> {
  expect(await leftovers(node)).toMatch(
    new RegExp(`default/${pod.name} .*its DEL has begun and not succeeded, since 20`),
  );
  await endBackoff(node, pod);
  await plugins.clear();
  await addAndDel(node, `after-${pod.name}`);
  expect(await plugins.order(pod.containerId)).toContain("DEL alpha/net1");
  expect(pod.isRecorded).toBe(false);
  expect(await leftovers(node)).not.toContain(`default/${pod.name}`);
}

/** A pod whose DEL failed and is not repeated; its plugin works again. */
async function leftover(
  node: PlexusNode,
  plugins: ScriptedPlugins,
  name: string,
): Promise<TestPod> {
  const pod = await node.pod(name, { networks: "alpha" });
  await pod.mustAdd();
  await plugins.script("alpha", "DEL", errorScript(77, "the switch is busy"));
  expect(errorOf(await pod.del()).code).toBe(77);
  await node.lab.deleteNetns(pod.netns);
  await plugins.unscript("alpha", "DEL");
  await plugins.clear();
  return pod;
}

/** Moves the failure into the past, and restarts the engine to read it. */
async function endBackoff(
  node: PlexusNode,
  { containerId, recordPath: path }: TestPod,
): Promise<void> {
  await node.stopDaemon();
  const place = { path, key: { containerId, ifName: "eth0" } };
  const file = await readFile(path);
  const { record, plan } = parseRecord(file, place);
  const failedAt = new Date(Date.now() - 3_600_000).toISOString();
  // A record that is only marked says nothing of a teardown.
  const teardown = { ...(record.teardown ?? begunTeardown(failedAt)), failedAt };
  await writeFile(path, formatRecord({ ...record, teardown }, plan));
  await node.startDaemon();
}

async function addAndDel(node: PlexusNode, name: string): Promise<void> {
  const pod = await node.pod(name, { networks: "beta" });
  await pod.mustAdd();
  await pod.mustDel();
}

function paths({ socketPath, stateDir }: PlexusNode): { socket: string; stateDir: string } {
  return { socket: socketPath, stateDir };
}

function plexusctl(node: PlexusNode, ...args: string[]): Promise<Result> {
  return node.lab.try([nodeBinary(), distPath("plexusctl.js"), ...args]);
}

function gc(node: PlexusNode, plugins: ScriptedPlugins): Promise<Result> {
  const { socketPath, stateDir } = node;
  const flags = ["--bin-dir", plugins.binDir, "--socket", socketPath, "--state-dir", stateDir];
  return plexusctl(node, "gc", ...flags);
}

async function leftovers(node: PlexusNode): Promise<string> {
  const { stdout } = await plexusctl(node, "records", "--leftovers", "--state-dir", node.stateDir);
  return String(stdout);
}

async function status(node: PlexusNode): Promise<string> {
  return String((await plexusctl(node, "status", "--socket", node.socketPath)).stdout);
}
