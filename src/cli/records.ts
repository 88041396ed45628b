import type { AttachmentRecord } from "#engine/record.ts";
import { defaultPaths } from "#lib/default-paths.ts";
import { type Command, ExitCode, stringFlag } from "./command.ts";
import { readRecords } from "./read-records.ts";

/** `plexusctl records`. */
export const recordsCommand: Command = {
  name: "records",
  synopsis: "[--state-dir DIR] [--json]",
  summary: "list the attachments of this node",
  help: `  --state-dir DIR   attachment records (default ${defaultPaths.stateDir})
  --json            the records themselves, one JSON object a line

Exit code 1: some records are damaged; they are listed on stderr, after the others.`,
  flags: {
    "state-dir": { type: "string", default: defaultPaths.stateDir },
    json: { type: "boolean", default: false },
  },
  argumentCount: 0,
  async run(args, output) {
    const { records, damaged } = await readRecords(stringFlag(args, "state-dir"));
    const sorted = records.toSorted((a, b) => sandboxName(a).localeCompare(sandboxName(b)));
    if (args.flags.json === true) for (const record of sorted) output.out(JSON.stringify(record));
    else for (const line of tableOf(sorted)) output.out(line);
    for (const each of damaged) output.err(each.reason);
    return damaged.length === 0 ? ExitCode.Done : ExitCode.Failed;
  },
};

/** The pod of a record, or its container where there is no pod. */
export function sandboxName(record: AttachmentRecord): string {
  return record.pod === undefined
    ? record.containerId.slice(0, 12)
    : `${record.pod.namespace}/${record.pod.name}`;
}

function tableOf(records: readonly AttachmentRecord[]): string[] {
  const rows = records.map((record) => [
    sandboxName(record),
    record.containerId.slice(0, 12),
    record.attachments.map((each) => `${each.ifName}=${each.displayName}`).join(","),
    record.createdAt,
  ]);
  const all = [["POD", "CONTAINER", "NETWORKS", "SINCE"], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
