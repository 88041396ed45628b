import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { execIn, pings } from "./containers.ts";
import type { DockerLab } from "./lab.ts";

/** Containers when the driver or dockerd stops. */
export function failureScenarios(lab: DockerLab): void {
  test.each(["SIGTERM", "SIGKILL"] as const)(
    "containers keep their network across %s and a restart of the driver",
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

  test("with live-restore, a restarted dockerd keeps the network of running containers", async () => {
    const { machine } = lab.fixture;
    await machine.stopDockerd();
    await machine.startDockerd({ liveRestore: true });
    const [one, two] = await lab.runPair("red");
    await machine.stopDockerd();
    await machine.stopDriver();
    await machine.startDriver();
    await machine.startDockerd({ liveRestore: true });
    expect(await pings(one, two.getIpAddress("red"))).toBe(true);
    await lab.fixture.expectNothingLeft(lab.before);
    await machine.stopDockerd();
    await machine.startDockerd();
  });

  test("containers with a fixed address and port start again at once when dockerd was killed", async () => {
    const { machine, docker } = lab.fixture;
    await machine.stopDriver();
    // The timer takes no part in it.
    await machine.startDriver({ reconcileSeconds: 3600 });
    const driverOpts = { "plexus.ips": "10.73.0.77/24" };
    const fixed = await lab.run("fixed", "fixed", { driverOpts, published: "18082" });
    const container = docker.getContainer(fixed.id);
    await container.update({ RestartPolicy: { Name: "always" } });
    await machine.waitUntilSeen();
    await machine.stopDockerd("SIGKILL");
    await machine.startDockerd();
    await waitUntil("the container runs", async () => (await container.inspect()).State.Running);
    expect(await execIn(fixed, "ip", "-o", "address")).toContain("inet 10.73.0.77/24");
    expect(await machine.run("iptables", "-t", "nat", "-S")).toContain("10.73.0.77:80");
    await machine.stopDriver();
    await machine.startDriver();
    await lab.fixture.expectNothingLeft(lab.before);
  });

  test.each(["limitless", "subnetless"] as const)(
    "a configuration that its plugin refuses in ADD and DEL leaves nothing after the grace period: %s",
    async (network) => {
      await lab.fixture.createNetwork(network);
      for (let run = 1; run <= 3; run++)
        await expect(lab.run(`refused-${run}`, network)).rejects.toThrow("failed (add)");
      const { machine } = lab.fixture;
      await waitUntil("no endpoint is left", async () => (await machine.endpoints()).length === 0);
      await lab.fixture.expectNothingLeft(lab.before);
      await lab.fixture.docker.getNetwork(network).remove();
    },
  );

  test("the driver detaches endpoints that dockerd forgets when it is killed", async () => {
    const { machine } = lab.fixture;
    await lab.runPair("red");
    await lab.run("three", "wire");
    expect(await machine.endpoints()).toHaveLength(3);
    await machine.stopDockerd("SIGKILL");
    await machine.startDockerd();
    await waitUntil("all endpoints are gone", async () => (await machine.endpoints()).length === 0);
    await lab.fixture.expectNothingLeft(lab.before);
  });
}
