import { adminFlags, askAdmin, PlexusdUnavailable } from "#cli/admin.ts";
import { command, ExitCode, readInput } from "#cli/command.ts";
import { switchFlag } from "#cli/flags.ts";
import { networkFindings } from "#cli/inspect/networks/networks.ts";
import { columns, print } from "#cli/output-format.ts";
import type { NodeCondition, NodeStatus } from "#daemon/admin/node-status.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import { found, textOf, verdictOfCondition, worstFirst } from "#lib/condition.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { withExpected } from "./expected-config.ts";
import {
  directoryFindings,
  otherListFindings,
  shimFinding,
  tokenFindings,
} from "./node-findings.ts";

const words = { ok: "ok", warning: "WARNING", wait: "WAIT", problem: "PROBLEM" };

export const doctorCommand = command({
  name: "doctor",
  summary: "check this node: directories, configuration, versions, API, leftovers",
  description:
    "Asks plexusd and checks the node's directories, in plexusd's container or on the node.",
  flags: {
    ...adminFlags,
    "expected-config": switchFlag(
      "compare the configuration with the one on stdin, which the ConfigMap has",
    ),
  },
  failsWhen: "there is a problem; warnings alone are 0",
  async run({ flags }, output) {
    const expected = flags["expected-config"] ? await readInput(output) : undefined;
    const conditions = worstFirst(await examine(flags.socket, expected));
    const findings = conditions.map((each) => {
      const { check, reason } = each;
      return { check, reason, verdict: verdictOfCondition(each), text: textOf(each) };
    });
    const rows = findings.map(({ check, verdict, text }) => [words[verdict], check, text]);
    print(output, flags.output, { value: findings, text: () => columns(rows) });
    return findings.some(({ verdict }) => verdict === "problem") ? ExitCode.Failed : ExitCode.Done;
  },
});

async function examine(socket: string, expected?: string): Promise<NodeCondition[]> {
  try {
    // What prevents the answer is in the other findings.
    const networks = askAdmin<NetworkOnNode[]>(socket, "/networks").catch(() => []);
    const report = await askAdmin<NodeStatus>(socket, "/node");
    return [
      ...(expected === undefined ? report.conditions : withExpected(report, expected)),
      { check: "shim", ...(await shimFinding(report)) },
      ...(await tokenFindings(report.dirs.stateDir)),
      ...(await directoryFindings(report.dirs)),
      ...(await otherListFindings(report.dirs.cniConfDir)),
      ...networkFindings(await networks),
    ];
  } catch (error) {
    if (!(error instanceof PlexusdUnavailable)) throw error;
    const { cniConfDir, cniBinDir: shimDir, stateDir } = defaultPaths;
    return [
      { check: "plexusd", ...found("DaemonUnavailable", error.message) },
      ...(await tokenFindings(stateDir)),
      ...(await directoryFindings({ cniConfDir, shimDir, binDirs: [shimDir], stateDir })),
    ];
  }
}
