import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { expect, test } from "vitest";
import { dockerCommand } from "./docker.ts";

const deploy = join(import.meta.dirname, "../../../deploy/docker");

/** The flags of a command line, read as plexusctl does. @throws TypeError for one that it does not have */
function flagsOf(argv: readonly string[]): Record<string, unknown> {
  const start = argv.indexOf("docker") + 1;
  return parseArgs({ args: argv.slice(start), options: dockerCommand.flags, strict: true }).values;
}

test("the systemd unit runs the driver with flags that it has, before Docker", async () => {
  const unit = await readFile(join(deploy, "plexus-docker.service"), "utf8");
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(" ") ?? [];
  expect(flagsOf(command)).toMatchObject({ manifests: "/etc/plexus/networks" });
  expect(unit).toContain("Before=docker.service");
  const stopSeconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
  expect(stopSeconds * 1000).toBeGreaterThanOrEqual(dockerCommand.stopMs ?? 0);
});

test("the managed plugin runs the driver with flags that it has and mounts what they name", async () => {
  const config = JSON.parse(await readFile(join(deploy, "config.json"), "utf8"));
  const flags = flagsOf(config.entrypoint);
  const mounted = config.mounts.map(({ destination }: { destination: string }) => destination);
  expect(mounted).toEqual([flags.manifests, `${flags["sandbox-root"]}/var/run/docker`]);
  const { socket, types } = config.interface;
  expect(dockerCommand.flags["plugin-socket"]?.default).toBe(`/run/docker/plugins/${socket}`);
  expect(types).toEqual(["docker.networkdriver/1.0"]);
});
