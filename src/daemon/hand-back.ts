import { readCniConfDir } from "#daemon/cni-conf/conf-dir.ts";
import { findHandBackTarget, handBack } from "#daemon/cni-conf/hand-back.ts";
import { PreviousPrimary } from "#daemon/cni-conf/previous-primary.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { needOf, sandboxNames } from "#engine/leftovers/without-plexus.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { RecordReader, RecordWriter } from "#engine/ports/records.ts";
import { isCrioRunning } from "#host/crio.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { Cluster } from "./cluster.ts";

interface HandBackOptions {
  readonly stateDir: string;
  readonly config: Pick<EffectiveConfig, "current">;
  readonly records: RecordReader & RecordWriter;
  readonly confFiles: ConfFiles;
  readonly cluster: Pick<Cluster, "recordOnNode">;
  readonly logger: Logger;
}

/**
 * Hands the node back to its primary CNI, because Plexus was deleted and plexusd ends: without
 * plexusd, every ADD would fail. Changes nothing while a pod is attached that the primary CNI cannot
 * detach, and says so in an event. The records of what it detaches are removed. The others stay, with
 * the shim, which nerdctl and CRI-O still call. Interrupted at any step, the node uses either
 * Plexus or its primary CNI. Never throws.
 */
export async function handBackNode(options: HandBackOptions): Promise<void> {
  const { stateDir, config, records, confFiles: files, cluster, logger } = options;
  const { cniConfDir, primaryDir, binDirs } = config.current().nodeConf;
  const paths = { cniConfDir, primaryDir, stateDir };
  try {
    const { text, renamed } = await readCniConfDir(cniConfDir, files);
    if (text === undefined && renamed.length === 0) return;
    const next = await findHandBackTarget(paths, { binDirs, files });
    if ("problem" in next) throw new Error(next.problem);
    const listed = await records.list();
    for (const { error } of listed.damaged) throw error;
    const node = { primary: next.name, isCrio: await isCrioRunning() };
    const { plexus, nothing = [] } = Object.groupBy(listed.records, (each) => needOf(each, node));
    if (plexus !== undefined) {
      throw new Error(`pods that only Plexus can detach are attached: ${sandboxNames(plexus)}`);
    }
    await handBack(paths, { primary: next.file, files });
    await new PreviousPrimary(stateDir).forget();
    for (const record of nothing) await records.finish(record);
    logger.info({ primary: next.file }, "Plexus was deleted: the node is handed back");
    const message = `Plexus was deleted: the container runtime uses ${next.file}`;
    cluster.recordOnNode({ reason: "NodeHandedBack", message });
  } catch (error) {
    const reason = errorMessage(error);
    logger.warn({ reason }, "Plexus was deleted, but the node is not handed back");
    const message = `Plexus was deleted, but this node still needs it: ${reason}. ${recovery}`;
    cluster.recordOnNode({ reason: "NodeNotHandedBack", message });
  }
}

const recovery =
  'New pods fail here. Install Plexus again, or hand the node back as in docs/operations/troubleshooting.md, "Plexus was deleted too early"';
