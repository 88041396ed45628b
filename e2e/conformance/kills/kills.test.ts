import { copyFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { flavour } from "../../support/flavour.ts";
import type { HostState } from "../../support/host-state.ts";
import { bridge, chained } from "../../support/networks.ts";
import { cniPluginDir } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { CnitoolNode } from "../cnitool-node.ts";

/* Processes of a call are killed at each of its steps: before and after each plugin, also the IPAM plugin. */

const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];
const front = chained(bridge("front", 21), {
  type: "portmap",
  snat: true,
  capabilities: { portMappings: true },
});

/** plexusd is no process of a call: e2e/netns/detach/crash.test.ts kills it. */
const victims = flavour === "daemon" ? ["plugin", "shim"] : ["plugin", "shim", "plexus-standalone"];

let runtime: CnitoolNode;
let plugins: string;
let untouched: HostState;
/** Before and after bridge, host-local, portmap, and the second bridge with host-local. */
const steps = 10;

beforeAll(async () => {
  runtime = await CnitoolNode.create();
  const { node } = runtime;
  plugins = join(node.lab.dir, "striking");
  await mkdir(plugins);
  await symlink(cniPluginDir(), join(plugins, "real"));
  for (const type of ["bridge", "host-local", "portmap"])
    await copyFile(join(import.meta.dirname, "striking-plugin.sh"), join(plugins, type));
  node.cniPath = [plugins];
  const capabilities = { portMappings: true };
  await runtime.configure("1.0.0", { capabilities, delegates: [front, bridge("back", 22)] });
  await node.lab.addNetns("web");
  // What the plugins keep for good: bridges, their chains.
  for (const command of ["add", "del"] as const) expect((await strike(command)).events).toBe(steps);
  untouched = await node.hostState();
});
afterAll(() => runtime?.[Symbol.asyncDispose]());

/** One call, with the step at which one of its processes is killed. Returns how many steps it had. */
async function strike(
  command: "add" | "del",
  { step = 0, victim = "" } = {},
): Promise<{ exitCode: number; events: number }> {
  const events = join(plugins, "events");
  await writeFile(events, "");
  if (step > 0) await writeFile(join(plugins, "strike"), `${step} ${victim}\n`);
  const { exitCode } = await runtime.run(command, "web", { capabilities: { portMappings } });
  await rm(join(plugins, "strike"), { force: true });
  return { exitCode, events: (await readFile(events, "utf8")).split("\n").length - 1 };
}

const kills = victims.flatMap((victim) =>
  (["add", "del"] as const).map((command) => ({ victim, command })),
);

test.for(kills)(
  "$victim is killed at any step of cnitool $command: the next del leaves nothing",
  async ({ victim, command }) => {
    for (let step = 1; step <= steps; step++) {
      const at = `at step ${step}`;
      if (command === "del") expect((await strike("add")).exitCode, at).toBe(0);
      const struck = await strike(command, { step, victim });
      expect(struck.events, `${at} was not reached`).toBeGreaterThanOrEqual(step);
      // Only the shim can detach everything without its engine, by executing the teardown plan.
      const replays = command === "del" && victim === "plexus-standalone";
      expect(struck.exitCode === 0, `${at}: cnitool ${command} succeeds`).toBe(replays);
      expect((await strike("del")).exitCode, at).toBe(0);
      let left: string[] = [];
      // A killed process may be there for another moment.
      const nothingIsLeft = async (): Promise<boolean> => {
        left = await runtime.node.changesSince(untouched);
        return left.length === 0;
      };
      await waitUntil("nothing is left", nothingIsLeft).catch(() => undefined);
      expect(left, at).toEqual([]);
    }
  },
);
