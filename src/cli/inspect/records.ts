import { command, ExitCode } from "#cli/command.ts";
import { choiceFlag, commonFlags, switchFlag } from "#cli/flags.ts";
import { columns, print } from "#cli/output-format.ts";
import { addressesOf } from "#engine/explain/attached-network.ts";
import { leftoverReason } from "#engine/leftovers/leftover.ts";
import { type AttachmentRecord, sandboxName } from "#engine/record/record.ts";
import { readNodeNow, readRecords } from "./node-state.ts";

export const recordsCommand = command({
  name: "records",
  summary: "list the attachments of this node",
  flags: {
    "state-dir": commonFlags.stateDir,
    leftovers: switchFlag(
      "only records of sandboxes that no longer exist, with the reason: an ADD or a teardown was interrupted, a teardown failed, or the node was rebooted since",
    ),
    output: choiceFlag(["text", "wide", "json", "yaml"], {
      short: "o",
      help: "the format; wide has addresses, and whole IDs of containers",
    }),
  },
  failsWhen: "records are damaged or cannot be read; stderr has them",
  async run({ flags: { output: format, ...flags } }, output) {
    const { records, damaged } = await readRecords(flags["state-dir"]);
    const current = await readNodeNow(records);
    const listed = records
      .map((record) => ({ record, reason: leftoverReason(record, current) }))
      .filter(({ reason }) => !flags.leftovers || reason !== undefined)
      .toSorted((a, b) => sandboxName(a.record).localeCompare(sandboxName(b.record)));
    const value = listed.map(({ record }) => record);
    const text = () => tableOf(listed, { withReason: flags.leftovers, isWide: format === "wide" });
    print(output, format, { value, text });
    if (records.length + damaged.length === 0) output.err(`no attachment in ${flags["state-dir"]}`);
    for (const each of damaged) output.err(each.error.message);
    return damaged.length === 0 ? ExitCode.Done : ExitCode.Failed;
  },
});

function tableOf(
  listed: readonly { readonly record: AttachmentRecord; readonly reason: string | undefined }[],
  { withReason, isWide }: { readonly withReason: boolean; readonly isWide: boolean },
): string[] {
  const head = ["POD", "CONTAINER", "NETWORKS", "SINCE"];
  if (isWide) head.push("ADDRESSES");
  if (withReason) head.push("REASON");
  const rows = listed.map(({ record, reason = "" }) => [
    sandboxName(record),
    isWide ? record.containerId : record.containerId.slice(0, 12),
    record.attachments.map((each) => `${each.ifName}=${each.displayName}`).join(","),
    record.createdAt,
    ...(isWide ? [record.attachments.flatMap(addressesOf).join(",")] : []),
    ...(withReason ? [reason] : []),
  ]);
  return columns([head, ...rows]);
}
