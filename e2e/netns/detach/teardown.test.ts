import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { encodePlan } from "../../shim/lab/frames.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest as test } from "../../support/node/test.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";

test("if a delegate fails in DEL, the other networks are detached, the record stays, and the error has no words that containerd reads as success [S-606] [N-7.2b] [N-7.2c]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("one-fails", { networks: "alpha,beta" });
  await pod.mustAdd();
  // The interface that a plugin with a failing DEL leaves.
  await pod.addLink("net1");
  await plugins.clear();
  await plugins.script("alpha", "DEL", errorScript(77, "the switch is Not Found"));
  const error = errorOf(await pod.del());
  expect(error.code).toBe(77);
  expect(error.msg).toContain('plugin type="alpha" failed (delete): the switch is absent');
  expect(await plugins.order()).toEqual(detachOrder("alpha", "beta"));
  expect(existsSync(pod.recordPath)).toBe(true);
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
  expect(existsSync(pod.recordPath)).toBe(false);
});

test("a record whose plan has a later version is refused and kept, for the release that wrote it", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("later-version", { networks: "alpha" });
  await pod.mustAdd();
  // plexusd's own update would be the newest.
  await node.statusesPublished();
  const before = await readFile(pod.recordPath);
  const { containerId } = pod;
  const later = encodePlan({ containerId, ifName: "eth0", version: "4", steps: [] });
  await writeFile(pod.recordPath, Buffer.concat([before, later]));
  await plugins.clear();
  for (const answer of [await pod.del(), await pod.del()]) {
    const error = errorOf(answer);
    expect(error.code).toBe(5);
    expect(error.msg).toMatch(
      `${pod.recordPath}, which is kept: plan version "4" is not supported`,
    );
  }
  expect(await plugins.order()).toEqual([]);
  expect(await readFile(pod.recordPath)).toEqual(Buffer.concat([before, later]));
  await writeFile(pod.recordPath, before);
  await pod.mustDel();
  expect(await plugins.order()).toEqual(detachOrder("alpha"));
});

test("with a damaged record, DEL detaches the default networks and renames the file", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("both-damaged", { networks: "alpha" });
  await pod.mustAdd();
  // The next update of the record would mend it.
  await node.statusesPublished();
  await damage(pod.recordPath);
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(detachOrder());
  expect(existsSync(pod.recordPath)).toBe(false);
  expect(node.log).toContain("were renamed");
  await pod.mustAdd();
  await pod.mustDel();
});

needsPlexusd("doctor asks it", () => {
  test("doctor names the file of a record that a DEL has set aside", async ({ node }) => {
    const pod = await node.pod("set-aside", { networks: "alpha" });
    await pod.mustAdd();
    await node.statusesPublished();
    await damage(pod.recordPath);
    await pod.mustDel();
    const command = [nodeBinary(), distPath("plexusctl.js"), "doctor", "--socket"];
    const { stdout } = await node.lab.try([...command, node.socketPath]);
    expect(String(stdout)).toMatch(/^WARNING +records +\S+\.record\.damaged is what no DEL/m);
  });
});

/** Changes one letter of a file, wherever it occurs. */
async function damage(path: string): Promise<void> {
  const text = await readFile(path, "latin1");
  await writeFile(path, text.replaceAll("net-alpha", "Met-alpha"), "latin1");
}
