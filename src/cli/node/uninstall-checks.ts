import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { readRecords } from "#cli/inspect/read-records.ts";
import { findCandidates } from "#daemon/cni-conf/candidates.ts";
import { PreviousPrimary } from "#daemon/cni-conf/previous-primary.ts";
import { type AttachmentRecord, sandboxName } from "#engine/record/record.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import type { HostView } from "#host/host-view.ts";
import { executableNames, plexusConfName } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { listedPluginDirs } from "./plugin-dirs.ts";
import type { UninstallPaths } from "./uninstall-steps.ts";

/** Whether a process accepts connections on plexusd's socket. */
export async function isDaemonRunning(socket: string): Promise<boolean> {
  const probe = connect(socket);
  const connected = await once(probe, "connect").catch(() => undefined);
  probe.destroy();
  return connected !== undefined;
}

/** What is still attached, or may be: one sentence each. */
export async function attachmentProblems(
  stateDir: string,
  options: { allowDefaultOnly: boolean },
): Promise<string[]> {
  const { records, damaged } = await readRecords(stateDir);
  const blocking = options.allowDefaultOnly
    ? records.filter((record) => record.attachments.some((each) => !each.isDefault))
    : records;
  const problems = damaged.map((each) => each.reason);
  const attached = blocking.filter(({ teardown }) => teardown === undefined);
  const failed = blocking.filter(({ teardown }) => teardown !== undefined);
  if (attached.length > 0) {
    problems.push(
      `sandboxes attached through Plexus: ${namesOf(attached)}; delete these pods or drain the node first`,
    );
  }
  if (failed.length > 0) {
    const lastError = failed.at(-1)?.teardown?.lastError ?? "";
    problems.push(
      `sandboxes whose teardown failed: ${namesOf(failed)}; last error: ${lastError}; run plexusctl gc while plexusd runs, or plexusctl gc --forget SANDBOX; --force leaves their resources behind`,
    );
  }
  return problems;
}

function namesOf(records: readonly AttachmentRecord[]): string {
  const names = records.slice(0, 10).map(sandboxName).join(", ");
  const more = records.length > 10 ? ` and ${records.length - 10} more` : "";
  return `${records.length} (${names}${more})`;
}

/** The file that the container runtime uses next, or why there is none; neither without Plexus. */
export interface PrimaryAfterUninstall {
  readonly file?: string;
  readonly warning?: string;
  readonly problem?: string;
}

/** Finds the file to hand the node back to: the previous primary, else the first usable one. */
export async function findPrimaryAfterUninstall(
  paths: UninstallPaths,
  view: HostView,
): Promise<PrimaryAfterUninstall> {
  const { primaryDir, binDir, pluginDirsFile } = paths;
  const own = await readFile(join(paths.cniConfDir, plexusConfName), "utf8").catch(() => undefined);
  const previous = new PreviousPrimary(paths.stateDir);
  await previous.load(own);
  const files = new HostConfFiles(view);
  const binDirs = [binDir, ...(await listedPluginDirs(pluginDirsFile))];
  const candidates = await findCandidates({ dir: primaryDir, binDirs, files });
  const known = candidates.find((each) => each.file === previous.file);
  const usable = [known, ...candidates].find((each) => each?.kind === "usable");
  if (usable?.kind === "usable") {
    return omitUndefined({ file: usable.file, warning: usable.warning });
  }
  if (own === undefined && !existsSync(join(binDir, executableNames.shim))) return {};
  const why = known?.kind === "unusable" ? known.problem : "there is none";
  const problem = `no usable configuration of a primary CNI in ${primaryDir} (${why}): the node would have no network`;
  return { problem };
}
