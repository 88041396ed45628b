import { join } from "node:path";
import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { scriptedTest as test } from "../../support/node/test.ts";
import { waitUntil } from "../../support/wait.ts";

test.beforeAll(async ({ idleNode: { lab, stateDir } }) => {
  await lab.run("mkdir", "-p", stateDir);
  await lab.run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", stateDir);
});

/** Fills the state directory with a file and returns its path. */
async function fill({ lab, stateDir }: PlexusNode): Promise<string> {
  const file = join(stateDir, "filler");
  await lab.try(["dd", "if=/dev/zero", `of=${file}`, "bs=4k", "count=16", "status=none"]);
  return file;
}

test("a full state directory fails the ADD with the reason before anything is attached", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("full", { networks: "alpha" });
  const filler = await fill(node);
  const error = errorOf(await pod.add());
  expect(error.code).toBe(5);
  expect(error.msg).toMatch(/attachment record.*ENOSPC/);
  expect(await plugins.order()).toEqual([]);
  await node.lab.run("rm", filler);
  expect(await node.lab.run("ls", node.stateDir), "no half-written file").toBe("");
  await pod.mustAdd();
  await pod.mustDel();
});

test("a state directory that fills up after the ADD does not stop the DEL", async ({ node }) => {
  const pod = await node.pod("full-later", { networks: "alpha" });
  await pod.mustAdd();
  const filler = await fill(node);
  await pod.mustDel();
  await node.lab.run("rm", filler);
});

test("with a read-only state directory, ADD fails and DEL detaches but keeps the record; both succeed once it is writable", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("read-only", { networks: "alpha" });
  const attached = await node.pod("attached", { networks: "alpha" });
  await attached.mustAdd();
  await plugins.clear();
  // Records are open until they are durable, for half a second; such a file system stays writable.
  await waitUntil("the state directory can be made read-only", async () => {
    await node.lab.run("mount", "-o", "remount,ro", node.stateDir);
    return true;
  });
  const errors = [errorOf(await pod.add()), errorOf(await attached.del())];
  await node.lab.run("mount", "-o", "remount,rw", node.stateDir);
  for (const error of errors) {
    expect(error.code).toBe(5);
    expect(error.msg).toMatch(/read-only file system/i);
  }
  const detached = ["DEL alpha/net1", "DEL default-second/eth0", "DEL default-first/eth0"];
  expect(await plugins.order(), "only of the attached pod").toEqual(detached);
  await attached.mustDel();
  await pod.mustAdd();
  await pod.mustDel();
});

needsPlexusd("it opens the directory at its start", () => {
  test("plexusd does not start if it cannot create its state directory, and names the path", async ({
    node,
  }) => {
    await node.stopDaemon();
    await expect(node.startDaemon("--state-dir", "/etc/hostname/plexus")).rejects.toThrow(
      /plexusd: .*\/etc\/hostname/,
    );
    await node.startDaemon();
  });
});
