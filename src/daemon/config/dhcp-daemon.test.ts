import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { byKind, loadManifests, root } from "./testing/manifests.ts";

const manifests = loadManifests(readFileSync(`${root}deploy/overlays/dhcp/daemonset.yaml`, "utf8"));

/** Runs the container's command, where a script is the daemon. @returns the socket's path, and the run of the command */
async function lab() {
  const directory = await temporaryDirectory();
  const [socket, daemon] = [join(directory, "dhcp.sock"), join(directory, "dhcp")];
  await writeFile(daemon, '#!/bin/sh\necho "leases with $*"\n', { mode: 0o755 });
  const [{ command = [], args = [] }] = byKind("DaemonSet", manifests).spec.template.spec
    .containers;
  const [, , script = ""] = command;
  const ofLab = script
    .replace("/run/cni/dhcp.sock", socket)
    .replace("/plexus/plugins/dhcp", daemon);
  const run = () => execa(process.execPath, ["--eval", ofLab, ...args], { reject: false });
  return { socket, run };
}

async function listening(path: string) {
  const server = createServer().listen(path);
  await once(server, "listening");
  return server;
}

test("the daemon of the plugin dhcp starts without a socket", async () => {
  const { run } = await lab();
  expect(await run()).toMatchObject({
    exitCode: 0,
    stdout: "leases with daemon -timeout=4s -resendtimeout=50s",
  });
});

test("the daemon of the plugin dhcp removes the socket of one that was killed", async () => {
  const { socket, run } = await lab();
  const server = await listening(`${socket}.own`);
  await rename(`${socket}.own`, socket);
  server.close();
  await once(server, "close");
  expect(existsSync(socket)).toBe(true);
  expect(await run()).toMatchObject({ exitCode: 0 });
  expect(existsSync(socket)).toBe(false);
});

test("the daemon of the plugin dhcp leaves another one's socket alone", async () => {
  const { socket, run } = await lab();
  const server = await listening(socket);
  const { exitCode, stderr, stdout } = await run();
  server.close();
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
  expect(stderr).toBe(
    `${socket}: another daemon of the plugin dhcp runs on this node: remove it first`,
  );
});
