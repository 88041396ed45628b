import { askPlexusd, PlexusdAway } from "#cli/ask-plexusd.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { reportFlags, reportFlagsHelp, wantsJson } from "#cli/report-flags.ts";
import { columns } from "#cli/table.ts";
import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { directoryFindings } from "./directories.ts";
import type { Finding } from "./finding.ts";
import { reportFindings } from "./report-findings.ts";
import { shimFinding } from "./shim.ts";

/** `plexusctl doctor`. */
export const doctorCommand: Command = {
  name: "doctor",
  synopsis: "[-o text|json] [--socket PATH]",
  summary: "examine this node: directories, configuration, releases, API, leftovers",
  help: `Asks plexusd and looks at the node's directories itself, in plexusd's container or on the node.

${reportFlagsHelp}

Exit code 1: there is a problem; warnings alone are 0.`,
  ...reportFlags,
  argumentCount: 0,
  run: doctor,
};

async function doctor(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const findings = await examine(stringFlag(args, "socket"));
  if (wantsJson(args)) output.out(JSON.stringify(findings));
  else for (const line of textOf(findings)) output.out(line);
  return findings.some(({ verdict }) => verdict === "problem") ? ExitCode.Failed : ExitCode.Done;
}

async function examine(socket: string): Promise<Finding[]> {
  try {
    const report = await askPlexusd<NodeStatus>(socket, "/node");
    return [
      ...reportFindings(report),
      await shimFinding(report),
      ...(await directoryFindings(report.dirs)),
    ];
  } catch (error) {
    if (!(error instanceof PlexusdAway)) throw error;
    const { cniConfDir, cniBinDir: shimDir, stateDir } = defaultPaths;
    const away: Finding = {
      check: "plexusd",
      verdict: "problem",
      text: `${error.message}: see the pod of the DaemonSet plexus on this node and its log`,
    };
    return [
      away,
      ...(await directoryFindings({ cniConfDir, shimDir, binDirs: [shimDir], stateDir })),
    ];
  }
}

function textOf(findings: readonly Finding[]): string[] {
  const words = { ok: "ok", warning: "WARNING", problem: "PROBLEM" };
  return columns(findings.map(({ check, verdict, text }) => [words[verdict], check, text]));
}
