import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { errorOf, type PlexusNode } from "../support/plexus-node.ts";
import { type ScriptedNode, scriptedNode, scriptedTypes } from "../support/scripted-node.ts";
import type { ScriptedPlugins } from "../support/scripted-plugins.ts";
import { gone } from "../support/until.ts";

let scripted: ScriptedNode;
let node: PlexusNode;
let plugins: ScriptedPlugins;

/** Long enough for a plugin that works on the busiest machine, and all that the hanging ones wait. */
const delegateTimeoutMs = 3000;

beforeAll(async () => {
  scripted = await scriptedNode({ daemon: false });
  ({ node, plugins } = scripted);
  const config = join(node.lab.dir, "config.yaml");
  await writeFile(config, `delegateTimeoutMs: ${delegateTimeoutMs}\n`);
  await node.startDaemon("--config", config);
});
afterAll(async () => await scripted?.[Symbol.asyncDispose]());
beforeEach(async () => await plugins.clear());
afterEach(async () => {
  for (const type of scriptedTypes) for (const c of ["ADD", "DEL"]) await plugins.unscript(type, c);
});

test("a delegate that hangs is killed with its children, and the ADD is undone", async () => {
  await plugins.script("alpha", "ADD", { hang: true, grandchild: true });
  const pod = await node.pod("hangs", { networks: "alpha" });
  const error = errorOf(await pod.add());
  expect(error.msg).toContain(`plugin type="alpha" failed (add)`);
  expect(error.msg).toContain(`timed out after ${delegateTimeoutMs} ms`);
  const alpha = (await plugins.executions()).find((e) => e.type === "alpha");
  await gone(alpha?.pid as number);
  await gone(alpha?.grandchild as number);
  expect(await plugins.order()).toEqual([
    "ADD default-first/eth0",
    "ADD default-second/eth0",
    "ADD alpha/net1",
    "DEL alpha/net1",
    "DEL default-second/eth0",
    "DEL default-first/eth0",
  ]);
});

test("a DEL that hangs is killed, the others are done, and the next DEL completes it", async () => {
  const pod = await node.pod("hangs-del", { networks: "alpha,beta" });
  await pod.mustAdd();
  await pod.run("ip", "link", "add", "net2", "type", "veth", "peer", "name", "net2p");
  await plugins.clear();
  await plugins.script("beta", "DEL", { hang: true });
  expect(errorOf(await pod.del()).msg).toContain("timed out");
  expect(await plugins.order()).toEqual([
    "DEL beta/net2",
    "DEL alpha/net1",
    "DEL default-second/eth0",
    "DEL default-first/eth0",
  ]);
  await plugins.unscript("beta", "DEL");
  await pod.mustDel();
});

test("the limit holds as well when the shim replays the plan", async () => {
  const pod = await node.pod("hangs-replay", { networks: "alpha" });
  await pod.mustAdd();
  await node.stopDaemon();
  await plugins.script("alpha", "DEL", { hang: true, grandchild: true });
  const error = errorOf(await pod.del());
  expect(error).toMatchObject({
    code: 102,
    msg: expect.stringContaining(`still running after ${delegateTimeoutMs} ms`),
  });
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
});
