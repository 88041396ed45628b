import { chown, copyFile } from "node:fs/promises";
import { join } from "node:path";
import type { Result } from "execa";
import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { scriptedTest } from "../../support/node/test.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";

/** No grace period: a plugin that is missing, or failed in its ADD, is given up at once. */
const grace = { delGraceMs: 0 };
const test = scriptedTest.extend("daemonConfig", { scope: "file" }, grace);

/** As Kubespray's `kube`, or the owner of what the archives of the reference plugins contain. */
const owner = 1001;

needsPlexusd("its agent retries leftovers", () => {
  test("a leftover whose plugin the agent does not trust is never given up, and --any-owner detaches it", async ({
    node,
    plugins,
  }) => {
    await copyFile(node.shim, join(plugins.binDir, "plexus"));
    const pod = await node.pod("untrusted", { networks: "alpha" });
    await pod.mustAdd();
    await plugins.script("alpha", "DEL", errorScript(77, "the switch is busy"));
    await pod.del();
    await plugins.unscript("alpha", "DEL");
    await node.lab.deleteNetns(pod.netns);
    await plugins.clear();
    await chown(plugins.binDir, owner, owner);
    const { socketPath, stateDir } = node;
    const flags = ["--bin-dir", plugins.binDir, "--socket", socketPath, "--state-dir", stateDir];
    const gc = (...options: string[]): Promise<Result> =>
      node.lab.try([nodeBinary(), distPath("plexusctl.js"), "gc", ...flags, ...options]);

    for (const attempt of [1, 2]) {
      const { exitCode, stdout } = await gc();
      expect(exitCode, `attempt ${attempt}`).toBe(1);
      expect(stdout).toMatch(
        /^default\/untrusted .*: remains: .*plugin "alpha" .* is not trusted: .* --any-owner$/,
      );
    }
    expect(await plugins.order(pod.containerId)).toEqual([]);
    expect(pod.isRecorded).toBe(true);
    expect(await gc("--any-owner")).toMatchObject({
      exitCode: 0,
      stdout: `default/untrusted (${pod.containerId}@eth0): detached`,
    });
    expect(await plugins.order(pod.containerId)).toEqual(["DEL alpha/net1"]);
    expect(pod.isRecorded).toBe(false);
  });
});
