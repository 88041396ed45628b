import { readFile, stat } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { PrimaryMemory } from "#daemon/node-conf/memory.ts";
import { findCandidates } from "#daemon/node-conf/primary.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { executableNames, plexusConfName } from "#lib/default-paths.ts";
import { readRecords } from "./read-records.ts";
import { nameOf } from "./records.ts";
import type { UninstallPaths } from "./uninstall-steps.ts";

/** Whether somebody answers at the daemon's socket. */
export function daemonRuns(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(socket);
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", () => resolve(false));
  });
}

/** Why the node is not free of attachments; empty = it is. */
export async function checkNothingAttached(
  stateDir: string,
  options: { allowDefaultOnly: boolean },
): Promise<string[]> {
  const { records, damaged } = await readRecords(stateDir);
  const blocking = options.allowDefaultOnly
    ? records.filter((record) => record.attachments.some((each) => !each.isDefault))
    : records;
  const problems = damaged.map((each) => each.reason);
  if (blocking.length === 0) return problems;
  const names = blocking.slice(0, 10).map(nameOf).join(", ");
  const more = blocking.length > 10 ? ` and ${blocking.length - 10} more` : "";
  const what = `sandboxes that are attached through Plexus: ${blocking.length} (${names}${more})`;
  return [...problems, `${what}; delete these pods, or drain the node, first`];
}

/** What the container runtime will use once our file is gone, or why there is nothing usable. */
export async function checkPrimary(
  paths: UninstallPaths,
): Promise<{ file?: string; problem?: string }> {
  const own = await readFile(join(paths.cniConfDir, plexusConfName), "utf8").catch(() => undefined);
  const memory = new PrimaryMemory(paths.stateDir);
  await memory.load(own);
  const candidates = await findCandidates({
    dir: paths.primaryDir,
    binDirs: [paths.binDir],
    files: new HostConfFiles(),
  });
  const known = candidates.find((each) => each.file === memory.file);
  const chosen = known?.list === undefined ? candidates.find((each) => each.list) : known;
  if (chosen !== undefined) return { file: chosen.file };
  // Uninstalled before, or never installed: there is nothing to hand over.
  if (own === undefined && !(await exists(join(paths.binDir, executableNames.shim)))) return {};
  const why = known?.problem ?? "there is none";
  return {
    problem: `no usable configuration of a primary CNI in ${paths.primaryDir} (${why}): the node would be left without a network`,
  };
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
