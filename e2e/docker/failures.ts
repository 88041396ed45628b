// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import type { DockerLab } from "./lab.ts";

/** Containers when the driver or dockerd stops. */
export function failureScenarios(lab: DockerLab): void {
  test.each(["SIGTERM", "SIGKILL"] as const)(
    "containers keep their network across %s and a restart of the driver",
    async (signal) => {
      await lab.runPair();
      await lab.machine.stopDriver(signal);
      expect(await lab.pings("one", (await lab.endpoint("two")).IPAddress)).toBe(true);
      await lab.machine.startDriver();
      await lab.run("three");
      expect(await lab.pings("three", "one")).toBe(true);
    },
  );

  test("with live-restore, dockerd takes running containers over after a restart", async () => {
    const { machine } = lab;
    await machine.stopDockerd();
    await machine.startDockerd("--live-restore");
    await lab.runPair();
    await machine.stopDockerd();
    await machine.stopDriver();
    await machine.startDriver();
    await machine.startDockerd("--live-restore");
    expect(await lab.pings("one", (await lab.endpoint("two")).IPAddress)).toBe(true);
    await lab.expectNothingLeft();
    await machine.stopDockerd();
    await machine.startDockerd();
  });

  test("endpoints that dockerd forgets when it is killed are detached", async () => {
    const { machine } = lab;
    await lab.runPair();
    await lab.run("three", [], { network: "wire" });
    expect(await machine.endpoints()).toHaveLength(3);
    await machine.stopDockerd("SIGKILL");
    await machine.startDockerd();
    await waitUntil("all endpoints are gone", async () => (await machine.endpoints()).length === 0);
  });
}
