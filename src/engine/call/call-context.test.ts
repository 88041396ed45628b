import { expect, test } from "vitest";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { contextWithoutCall } from "./call-context.ts";

test("work that no call carries executes nothing", async () => {
  const deps = { clock: () => 0, config: () => ({}) } as unknown as EngineDeps;
  const { host } = contextWithoutCall(deps, { cniVersion: "1.0.0", name: "n", type: "plexus" });
  await expect(host.exec({} as never)).rejects.toThrow(HostGoneError);
  await expect(host.find([], [])).rejects.toThrow(HostGoneError);
});
