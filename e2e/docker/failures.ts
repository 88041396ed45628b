// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { pings } from "./containers.ts";
import type { DockerLab } from "./lab.ts";

/** What becomes of containers when the driver or the engine ends. */
export function failureScenarios(lab: DockerLab): void {
  test.each(["SIGTERM", "SIGKILL"] as const)(
    "containers keep their network while the driver is ended by %s and started again",
    async (signal) => {
      const [one, two] = await lab.runPair("red");
      await lab.fixture.machine.stopDriver(signal);
      expect(await pings(one, two.getIpAddress("red"))).toBe(true);
      await lab.fixture.machine.startDriver();
      const three = await lab.run("three");
      expect(await pings(three, "one")).toBe(true);
      await lab.fixture.expectNothingLeft(lab.before);
    },
  );

  test("an engine that keeps containers alive takes them over when it is started again", async () => {
    const { machine } = lab.fixture;
    await machine.stopEngine();
    await machine.startEngine({ liveRestore: true });
    const [one, two] = await lab.runPair("red");
    await machine.stopEngine();
    await machine.stopDriver();
    await machine.startDriver();
    await machine.startEngine({ liveRestore: true });
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
    await machine.stopEngine();
    await machine.startEngine();
  });

  test("what an engine that was killed has forgotten is detached", async () => {
    const { machine } = lab.fixture;
    await lab.runPair("red");
    await lab.run("three", "wire");
    expect(await machine.endpoints()).toHaveLength(3);
    await machine.stopEngine("SIGKILL");
    await machine.startEngine();
    await waitUntil("all endpoints are gone", async () => (await machine.endpoints()).length === 0);
    await lab.fixture.expectNothingLeft(lab.before);
  });
}
