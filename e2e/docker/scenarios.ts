// SPDX-License-Identifier: Apache-2.0

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { HostState } from "../support/host-state.ts";
import { execIn, pings } from "./containers.ts";
import { outside } from "./docker-machine.ts";
import type { EngineBuild } from "./engines.ts";
import { DockerFixture } from "./fixture.ts";

/** What one engine and the driver have to do together. Every test leaves the machine as it was. */
export function dockerScenarios(name: EngineBuild["name"]): void {
  let fixture: DockerFixture;
  let before: HostState;

  beforeAll(async () => {
    fixture = await DockerFixture.create(name);
    for (const network of ["red", "blue", "fixed", "wire", "shaped", "dual"] as const) {
      await fixture.createNetwork(network);
      // Bridges and the plugins' own chains stay from their first use on.
      await fixture.run({ name: network, attachment: { network } });
    }
    await fixture.removeAll();
  });
  afterAll(() => fixture?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    before = await fixture.machine.state();
  });

  test("containers on a bridge reach each other by name and address, and the world", async () => {
    const [one, two] = await Promise.all(
      ["one", "two"].map((each) => fixture.run({ name: each, attachment: { network: "red" } })),
    );
    const address = two!.getIpAddress("red");
    expect(address).toMatch(/^10\.71\.0\./);
    expect(await pings(one!, address)).toBe(true);
    expect(await pings(one!, "two")).toBe(true);
    expect(await pings(one!, outside.address)).toBe(true);
    expect(await execIn(one!, "ip", "link", "show", "eth0")).toContain("mtu 1400");
    const { NetworkSettings } = await fixture.docker.getContainer(two!.getId()).inspect();
    const { MacAddress } = NetworkSettings.Networks.red!;
    expect(await execIn(two!, "cat", "/sys/class/net/eth0/address")).toBe(MacAddress);
    await fixture.expectNothingLeft(before);
  });
}
