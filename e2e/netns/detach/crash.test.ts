import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { decodePlan } from "#protocol/plan.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, macvlan } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { attachOrder, detachOrder, scriptedTest as test } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";
import { standaloneEnvironment } from "../../support/plexusd.ts";
import { waitForExit } from "../../support/processes.ts";
import { waitUntil } from "../../support/wait.ts";

const chain = attachOrder();
const dels = detachOrder("alpha", "beta");

/**
 * What ran before each plugin, and which DELs are due once the record is one network ahead. The
 * engine writes that while the plugin runs.
 */
const points = [
  { type: "default-first", ran: [], recorded: 2, owed: dels.slice(1) },
  { type: "default-second", ran: chain.slice(0, 1), recorded: 2, owed: dels.slice(1) },
  { type: "alpha", ran: chain, recorded: 3, owed: dels },
  { type: "beta", ran: [...chain, "ADD alpha/net1"], recorded: 3, owed: dels },
];

test.for(
  points.flatMap((point) => [
    { ...point, when: "while" },
    { ...point, when: "after" },
  ]),
)(
  "the engine is killed $when $type runs: the shim rolls the ADD back and reports code 11",
  async ({ type, ran, recorded, owed, when }, { node, plugins }) => {
    const pod = await node.pod(`${when}-${type}`, { networks: "alpha,beta" });
    await plugins.script(type, "ADD", { hold: true });
    const call = node.start(pod.request("ADD"));
    const held = await plugins.reached(type, "ADD");
    await waitUntil(
      "the record is written",
      async () => decodePlan(await readFile(pod.recordPath)).plan.attempted === recorded,
    );
    if (when === "after") {
      process.kill(await node.enginePid(call), "SIGSTOP");
      await plugins.release(type, "ADD");
      await waitForExit(held.pid);
    }
    await node.killEngine(call);
    if (when === "while") await plugins.release(type, "ADD");
    const error = errorOf(await call.outcome);
    await node.startDaemon();
    expect(error).toMatchObject({
      code: 11,
      msg: expect.stringMatching(/closed the connection.*rolled back/),
    });
    expect(await plugins.order()).toEqual([...ran, `ADD ${type}/${held.ifName}`, ...owed]);
    expect(pod.isRecorded).toBe(false);
    await pod.mustAdd();
    await pod.mustDel();
  },
);

needsPlexusd("an ADD waits for a daemon", () => {
  test("plexusd is killed before its first order: the ADD waits for the next plexusd and succeeds", async ({
    node,
    plugins,
  }) => {
    const pod = await node.pod("before-first", { networks: "alpha" });
    process.kill(await node.enginePid(), "SIGSTOP");
    const call = node.start(pod.request("ADD"));
    await waitUntil("the ADD is under way", () => pod.isLocked());
    await node.stopDaemon("SIGKILL");
    await node.startDaemon();
    expect(await call.outcome).toMatchObject({ exitCode: 0 });
    expect(await plugins.order()).toEqual([...chain, "ADD alpha/net1"]);
    await pod.mustDel();
  });
});

needsPlexusd("a stopped process acts after others have attached its sandbox again", () => {
  test.for([
    { command: "ADD", type: "alpha", exitCode: 1 },
    { command: "DEL", type: "alpha", exitCode: 0 },
    { command: "DEL", type: "default-first", exitCode: 0 },
  ] as const)(
    "plexusd is stopped while $type ends in $command: the container's next record stays as it is",
    async ({ command, type, exitCode }, { node, plugins }) => {
      const pod = await node.pod(`again-${command}-${type}`.toLowerCase(), { networks: "alpha" });
      if (command === "DEL") await pod.mustAdd();
      await plugins.script(type, command, { hold: true });
      const env = { PLEXUS_SILENCE_MS: "400", PLEXUS_STANDALONE: "/nowhere" };
      const call = node.start(pod.request(command, { env }));
      const { pid } = await plugins.reached(type, command);
      const plexusd = await node.enginePid();
      process.kill(plexusd, "SIGSTOP");
      await plugins.release(type, command);
      await waitForExit(pid);
      await plugins.unscript(type, command);
      expect(await call.outcome).toMatchObject({ exitCode });
      const { stateDir, manifestsDir: manifests, lab } = node;
      const socket = join(lab.dir, "none.sock");
      const again = await pod.add({ env: standaloneEnvironment({ stateDir, manifests, socket }) });
      expect(again).toMatchObject({ exitCode: 0 });
      await node.statusesPublished();
      const record = await readFile(pod.recordPath);
      process.kill(plexusd, "SIGCONT");
      const other = await node.pod(`after-${command}-${type}`.toLowerCase());
      await other.mustAdd();
      await other.mustDel();
      expect((await readFile(pod.recordPath)).equals(record)).toBe(true);
      await pod.mustDel();
    },
  );
});

test("the engine is killed in the middle of a DEL: the shim completes the DEL from the plan", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("in-del", { networks: "alpha,beta" });
  await pod.mustAdd();
  await plugins.clear();
  await plugins.script("alpha", "DEL", { hold: true });
  const call = node.start(pod.request("DEL"));
  await plugins.reached("alpha", "DEL");
  await node.killEngine(call);
  await plugins.release("alpha", "DEL");
  expect(await call.outcome).toMatchObject({ exitCode: 0, stdout: "" });
  await node.startDaemon();
  expect(await plugins.order()).toEqual([...dels.slice(0, 2), ...dels.slice(1)]);
  expect(pod.isRecorded).toBe(false);
});

test("the shim is killed while a delegate runs: the delegate ends, and DEL cleans up from the record", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("shim-killed", { networks: "alpha,beta" });
  await plugins.script("alpha", "ADD", { hold: true });
  const call = node.start(pod.request("ADD"));
  const alpha = await plugins.reached("alpha", "ADD");
  process.kill(call.pid, "SIGKILL");
  await call.outcome;
  await waitForExit(alpha.pid);
  await plugins.unscript("alpha", "ADD");
  expect(pod.isRecorded).toBe(true);
  await plugins.clear();
  const other = await node.pod("shim-killed-2", { networks: "alpha" });
  await other.mustAdd();
  await other.mustDel();
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order(), "the record is one network ahead").toEqual(dels);
  expect(pod.isRecorded).toBe(false);
});

test("shim and engine are killed at once: another ADD detaches first, as no interface is left", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("both-killed", { networks: "alpha,beta" });
  await plugins.script("beta", "ADD", { hold: true });
  const call = node.start(pod.request("ADD"));
  const beta = await plugins.reached("beta", "ADD");
  process.kill(call.pid, "SIGSTOP");
  await node.killEngine(call);
  process.kill(call.pid, "SIGKILL");
  await call.outcome;
  await waitForExit(beta.pid);
  await plugins.unscript("beta", "ADD");
  await node.startDaemon();
  await plugins.clear();
  await pod.mustAdd();
  expect(await plugins.order()).toEqual([...dels, ...attachOrder("alpha", "beta")]);
  await pod.mustDel();
});

test("the engine is killed at the last network: with real plugins no link, lease, rule or file is left", async ({
  node,
  plugins,
}) => {
  const { cniPath, defaultNetwork } = node;
  node.cniPath = [plugins.binDir, cniPluginDir()];
  node.defaultNetwork = bridge("crash-default", 31, { ipMasq: true });
  await node.lab.addUplink("up0");
  await node.nad("crash-macvlan", macvlan("crash-macvlan", 32));
  const pod = await node.pod("real", { networks: "crash-macvlan,alpha" });
  await pod.mustAdd();
  await pod.mustDel();
  const before = await node.hostState();
  await plugins.script("alpha", "ADD", { hold: true });
  const call = node.start(pod.request("ADD"));
  await plugins.reached("alpha", "ADD");
  expect(Object.keys(await pod.links())).toEqual(["eth0", "net1"]);
  await node.killEngine(call);
  await plugins.release("alpha", "ADD");
  expect(errorOf(await call.outcome).code).toBe(11);
  await node.startDaemon();
  expect(await node.changesSince(before)).toEqual([]);
  Object.assign(node, { cniPath, defaultNetwork });
});
