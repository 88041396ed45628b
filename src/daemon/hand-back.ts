import { readCniConfDir } from "#daemon/cni-conf/conf-dir.ts";
import {
  findHandBackTarget,
  removePlexusConf,
  restorePrimary,
} from "#daemon/cni-conf/hand-back.ts";
import { PreviousPrimary } from "#daemon/cni-conf/previous-primary.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { RecordReader, RecordWriter } from "#engine/ports/records.ts";
import { type AttachmentRecord, sandboxNames } from "#engine/record/record.ts";
import { isCrioRunning } from "#host/crio.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { Cluster } from "./cluster.ts";

/** Options of {@link handBackNode}. */
export interface HandBackOptions {
  readonly stateDir: string;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly records: RecordReader & RecordWriter;
  readonly confFiles: ConfFiles;
  readonly cluster: Pick<Cluster, "recordOnNode" | "node">;
  readonly logger: Logger;
}

/** Whether plexusd ends because Plexus was deleted, and what follows from it. */
export class HandBack {
  readonly #options: HandBackOptions;
  #isDeleted: Promise<boolean> | undefined;

  constructor(options: HandBackOptions) {
    this.#options = options;
  }

  /** Begins to ask. Call this first: the permission to ask may be the next to be deleted. */
  ask(): void {
    this.#isDeleted = this.#options.cluster.node?.ownDaemonSet?.isDeleted();
  }

  /** Call this after the last call and the last write of the node's CNI configuration. */
  async finish(): Promise<void> {
    if (await this.#isDeleted) await handBackNode(this.#options);
  }
}

/**
 * Hands the node back to its primary CNI, because Plexus was deleted and plexusd ends: without
 * plexusd, every ADD would fail. Changes nothing while a sandbox needs its record to be detached,
 * and says so in an event. The primary CNI detaches the others, so that their records are removed.
 * CRI-O still calls the shim for them, which stays. Interrupted at any step, the node uses either
 * Plexus or its primary CNI. Never throws. @internal
 */
export async function handBackNode(options: HandBackOptions): Promise<void> {
  const { stateDir, config, records, confFiles, cluster, logger } = options;
  const { cniConfDir, primaryDir, binDirs } = config.current().nodeConf;
  const paths = { cniConfDir, primaryDir, stateDir };
  try {
    const { text, renamed } = await readCniConfDir(cniConfDir, confFiles);
    if (text === undefined && renamed.length === 0) return;
    const attached = await defaultOnlyRecords(records);
    const next = await findHandBackTarget(paths, { binDirs, files: confFiles });
    if ("problem" in next) throw new Error(next.problem);
    await restorePrimary(paths, next.file);
    await removePlexusConf(cniConfDir, confFiles);
    await new PreviousPrimary(stateDir).forget();
    if (!(await isCrioRunning())) for (const record of attached) await records.finish(record);
    logger.info({ primary: next.file }, "Plexus was deleted: the node is handed back");
    const message = `Plexus was deleted: the container runtime uses ${next.file}`;
    cluster.recordOnNode({ type: "Normal", reason: "NodeHandedBack", message });
  } catch (error) {
    const reason = errorMessage(error);
    logger.warn({ reason }, "Plexus was deleted, but the node is not handed back");
    const message = `Plexus was deleted, but this node still needs it: ${reason}. ${recovery}`;
    cluster.recordOnNode({ type: "Warning", reason: "NodeNotHandedBack", message });
  }
}

const recovery =
  'New pods fail here. Install Plexus again, or hand the node back as in docs/operations/troubleshooting.md, "Plexus was deleted too early"';

/** @throws Error naming the sandboxes that the primary CNI cannot detach */
async function defaultOnlyRecords(records: RecordReader): Promise<readonly AttachmentRecord[]> {
  const listed = await records.list();
  for (const { reason } of listed.damaged) throw new Error(reason);
  const needing = listed.records.filter(({ attachments }) =>
    attachments.some(({ isDefault }) => !isDefault),
  );
  if (needing.length === 0) return listed.records;
  throw new Error(`sandboxes with additional networks are attached: ${sandboxNames(needing)}`);
}
