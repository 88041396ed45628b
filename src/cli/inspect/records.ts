import { type Command, ExitCode, stringFlag } from "#cli/command.ts";
import { table } from "#cli/table.ts";
import { leftoverReason } from "#engine/leftovers/leftover.ts";
import { type AttachmentRecord, sandboxName } from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { readRecords } from "./read-records.ts";

/** A record with the reason why it is a leftover, if it is one. */
interface ListedRecord {
  readonly record: AttachmentRecord;
  readonly reason: string | undefined;
}

/** `plexusctl records`. */
export const recordsCommand: Command = {
  name: "records",
  synopsis: "[--state-dir DIR] [--orphans] [--json]",
  summary: "list the attachments of this node",
  help: `  --state-dir DIR   attachment records (default ${defaultPaths.stateDir})
  --orphans         only those of sandboxes that no longer exist: a teardown failed or was
                    interrupted, or the machine was restarted since; with the reason
  --json            the records themselves, one JSON object a line

Exit code 1: some records are damaged; they are listed on stderr, after the others.`,
  flags: {
    "state-dir": { type: "string", default: defaultPaths.stateDir },
    orphans: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
  argumentCount: 0,
  async run(args, output) {
    const { records, damaged } = await readRecords(stringFlag(args, "state-dir"));
    const onlyOrphans = args.flags.orphans === true;
    const bootId = await readBootId();
    const listed = records
      .map((record) => ({ record, reason: leftoverReason(record, bootId) }))
      .filter(({ reason }) => !onlyOrphans || reason !== undefined)
      .toSorted((a, b) => sandboxName(a.record).localeCompare(sandboxName(b.record)));
    if (args.flags.json === true) {
      for (const { record } of listed) output.out(JSON.stringify(record));
    } else for (const line of tableOf(listed, onlyOrphans)) output.out(line);
    for (const each of damaged) output.err(each.reason);
    return damaged.length === 0 ? ExitCode.Done : ExitCode.Failed;
  },
};

function tableOf(listed: readonly ListedRecord[], withReason: boolean): string[] {
  const rows = listed.map(({ record, reason = "" }) => [
    sandboxName(record),
    record.containerId.slice(0, 12),
    record.attachments.map((each) => `${each.ifName}=${each.displayName}`).join(","),
    record.createdAt,
    ...(withReason ? [reason] : []),
  ]);
  const head = ["POD", "CONTAINER", "NETWORKS", "SINCE", ...(withReason ? ["REASON"] : [])];
  return table(head, rows);
}
