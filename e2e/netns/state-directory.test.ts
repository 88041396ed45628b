import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { errorOf, type PlexusNode } from "../support/plexus-node.ts";
import { type ScriptedNode, scriptedNode } from "../support/scripted-node.ts";
import type { ScriptedPlugins } from "../support/scripted-plugins.ts";

let scripted: ScriptedNode;
let node: PlexusNode;
let plugins: ScriptedPlugins;

beforeAll(async () => {
  scripted = await scriptedNode({ daemon: false });
  ({ node, plugins } = scripted);
  await node.lab.run("mkdir", "-p", node.stateDir);
  await node.lab.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", node.stateDir);
  await node.startDaemon();
});
afterAll(async () => await scripted?.[Symbol.asyncDispose]());
beforeEach(async () => await plugins.clear());

const filler = (): string => `${node.stateDir}/filler`;

test("a full state directory refuses an ADD with its reason, before anything is attached", async () => {
  const pod = await node.pod("full", { networks: "alpha" });
  await node.lab.run("dd", "if=/dev/zero", `of=${filler()}`, "bs=4k", "count=16", "status=none");
  const error = errorOf(await pod.add());
  expect(error.code).toBe(5);
  expect(error.msg).toMatch(/attachment record.*ENOSPC/);
  expect(await plugins.order()).toEqual([]);
  await node.lab.run("rm", filler());
  expect(await node.lab.run("ls", node.stateDir), "no half-written file").toBe("");
  await pod.mustAdd();
  await pod.mustDel();
});

test("a state directory that became full since the ADD does not stop the DEL", async () => {
  const pod = await node.pod("full-later", { networks: "alpha" });
  await pod.mustAdd();
  await node.lab.try(["dd", "if=/dev/zero", `of=${filler()}`, "bs=4k", "count=16", "status=none"]);
  await pod.mustDel();
  await node.lab.run("rm", filler());
});

test("with a read-only state directory ADD is refused and DEL detaches but cannot forget; both work again when it is mended", async () => {
  const pod = await node.pod("read-only", { networks: "alpha" });
  const attached = await node.pod("attached", { networks: "alpha" });
  await attached.mustAdd();
  await plugins.clear();
  await node.lab.run("mount", "-o", "remount,ro", node.stateDir);
  const errors = [errorOf(await pod.add()), errorOf(await attached.del())];
  await node.lab.run("mount", "-o", "remount,rw", node.stateDir);
  for (const error of errors) {
    expect(error.code).toBe(5);
    expect(error.msg).toMatch(/read-only file system/i);
  }
  const detached = ["DEL alpha/net1", "DEL default-second/eth0", "DEL default-first/eth0"];
  expect(await plugins.order(), "of the attached pod alone").toEqual(detached);
  await attached.mustDel();
  await pod.mustAdd();
  await pod.mustDel();
});

test("a daemon whose state directory cannot be made says so in one line and does not start", async () => {
  await node.stopDaemon();
  await expect(node.startDaemon("--state-dir", "/etc/hostname/plexus")).rejects.toThrow(
    /plexusd: .*\/etc\/hostname/,
  );
  await node.startDaemon();
});
