import { chown } from "node:fs/promises";
import { expect, test } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

needsPlexusd("it asks the agent", () => {
  test("doctor says which plugins the agent refuses, before anyone needs them, and none with --any-owner", async () => {
    await using hotPlug = await HotPlugNode.create();
    const { node, binDir } = hotPlug;
    const doctor = async (): Promise<string> => {
      const command = [nodeBinary(), distPath("plexusctl.js"), "doctor", "--socket"];
      const { stdout } = await node.lab.try([...command, node.socketPath]);
      return /^.*plexus agent.*$/m.exec(String(stdout))?.[0] ?? "";
    };
    const eventually = (line: RegExp): Promise<unknown> =>
      waitUntil(`doctor prints ${line}`, async () => line.test(await doctor()));

    expect(await doctor()).toBe("");
    await hotPlug.startAgent();
    await eventually(/^ok +plexus agent +runs every plugin of \S+\/bin$/);
    await chown(binDir, 1001, 1001);
    expect(await doctor()).toMatch(
      /^WARNING +plexus agent +plugs and detaches nothing with bandwidth, bridge, host-local, ptp, which the container runtime runs: plugin "bandwidth" in \S+ is not trusted: .* start plexus agent with --any-owner$/,
    );
    await hotPlug.stopAgent();
    await hotPlug.startAgent("--any-owner");
    await eventually(/^ok +plexus agent /);
  });
});
