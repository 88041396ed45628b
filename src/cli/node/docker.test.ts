import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseCommandLine } from "#cli/parse.ts";
import { dockerCommand } from "./docker.ts";

const deploy = join(import.meta.dirname, "../../../deploy/docker");

/** The flags of a command line, as plexusctl parses them. */
function flagsOf(argv: readonly string[]): Record<string, unknown> {
  const parsed = parseCommandLine(dockerCommand, argv.slice(argv.indexOf("docker") + 1));
  if ("problem" in parsed) throw new Error(parsed.problem);
  return parsed.line.flags;
}

test("the systemd unit starts the driver with valid flags, before Docker", async () => {
  const unit = await readFile(join(deploy, "plexus-docker.service"), "utf8");
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(" ") ?? [];
  expect(flagsOf(command)).toMatchObject({ manifests: "/etc/plexus/networks" });
  expect(unit).toContain("Before=docker.service");
  const stopSeconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
  expect(stopSeconds * 1000).toBeGreaterThanOrEqual(dockerCommand.stopMs ?? 0);
});

test("the managed plugin starts the driver with valid flags and mounts their paths", async () => {
  const config = JSON.parse(await readFile(join(deploy, "config.json"), "utf8"));
  const flags = flagsOf(config.entrypoint);
  const mounted = config.mounts.map(({ destination }: { destination: string }) => destination);
  expect(mounted).toEqual([flags.manifests, `${flags["sandbox-root"]}/var/run/docker`]);
  const { socket, types } = config.interface;
  expect(dockerCommand.flags["plugin-socket"].fallback).toBe(`/run/docker/plugins/${socket}`);
  expect(types).toEqual(["docker.networkdriver/1.0"]);
});
