import { readdir } from "node:fs/promises";
import { type NodeNow, nodeNow } from "#engine/leftovers/leftover.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { nothingAt, readHostView } from "#host/host-view.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { errorMessage } from "#lib/error-message.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { parseStateFileName } from "#lib/files/state-files.ts";
import { FileRecordStore } from "#records/file-store.ts";

const advice = "--state-dir must name the directory of plexusd's records";

/**
 * Reads the records of a state directory.
 * @throws Error when it cannot be read, or a flag names one without any state
 */
export async function readRecords(stateDir: string): ReturnType<RecordReader["list"]> {
  const listing = FileRecordStore.reader(stateDir).list();
  const listed = await listing.catch((cause) => {
    const message = `cannot read the attachment records: ${errorMessage(cause)}; ${advice}`;
    throw new Error(message, { cause });
  });
  const isGiven = stateDir !== defaultPaths.stateDir;
  if (isGiven && (await stateFilesIn(stateDir)).length === 0) throw new Error(noStateIn(stateDir));
  return listed;
}

/** The problem of a flag that names a directory without state. */
export function noStateIn(stateDir: string): string {
  return `Plexus has no state in ${stateDir}: ${advice}`;
}

/**
 * The files of Plexus in a state directory; none if there are only locks, which other programs name
 * alike.
 */
export async function stateFilesIn(dir: string): Promise<string[]> {
  const names = (await ifPresent(readdir(dir))) ?? [];
  const files = names.map((name) => ({ name, kind: parseStateFileName(name)?.kind }));
  const ours = files.filter(({ kind }) => kind !== undefined);
  return ours.every(({ kind }) => kind === "sandbox-lock") ? [] : ours.map(({ name }) => name);
}

/** What this process knows of the node, to tell leftovers. @throws Error as of node:fs */
export async function readNodeNow(records: readonly AttachmentRecord[] = []): Promise<NodeNow> {
  const [bootId, view] = await Promise.all([readBootId(), readHostView()]);
  const clocks = { clock: bootClockMs, now: () => new Date().toISOString() };
  return nodeNow({ bootId: () => bootId, ...clocks, isNothingAt: nothingAt(view) }, records);
}
