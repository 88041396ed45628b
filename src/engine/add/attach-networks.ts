import { formatResult } from "#cni/result/format.ts";
import { addNetwork } from "#cni/runtime/chain.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { failedAddOf } from "#engine/del/failed-add.ts";
import { provideDeviceInfo } from "#engine/plan/devices/device-info.ts";
import type { AttachmentPlan } from "#engine/plan/plan-attachments.ts";
import {
  type Attached,
  type PlannedAttachment,
  runtimeConf,
  withNetworkContext,
} from "#engine/plan/planned-attachment.ts";
import type { FailedAdd } from "#engine/record/record.ts";
import { checkSizeWithResults } from "#engine/record/record-size.ts";
import type { JsonObject } from "#lib/json.ts";
import type { AddRecord } from "./add-record.ts";
import { acceptIgnoredRequests } from "./ignored-requests.ts";
import { KernelInterfaces } from "./kernel-interfaces.ts";

interface AttachedNetworks {
  readonly attached: readonly Attached[];
  readonly kernel: KernelInterfaces;
}

/**
 * Attaches the networks in order, up to the first that fails; the caller rolls back what the record
 * says. The record is written before each network, so that a teardown after a crash skips networks
 * that were never attempted.
 * A network whose first plugin could not be executed was not attempted: its DEL would fail for the
 * same reason. A network whose result makes the record too long has failed.
 * @throws CniError with the failing delegate's code, naming its network
 */
export async function attachNetworks(
  ctx: CallContext,
  record: AddRecord,
  { attachments, recordBytes }: Pick<AttachmentPlan, "attachments" | "recordBytes">,
): Promise<AttachedNetworks> {
  const attached: Attached[] = [];
  const kernel = new KernelInterfaces(ctx, record.sandbox.netns);
  for (const [position, planned] of attachments.entries()) {
    if (position > 0) await recordAttempt(ctx, record, position);
    const chain = new ObservedChain(ctx.delegateRunner(planned.displayName));
    const isLast = position === attachments.length - 1;
    const run = isLast ? kernel.listedBehind(planned.list.plugins.length, chain.run) : chain.run;
    try {
      await provideDeviceInfo(ctx, record.sandbox.containerId, planned);
      const added = await attachNetwork(ctx, record, { planned, run });
      checkSizeWithResults(recordBytes, [...attached, added]);
      attached.push(added);
      record.noteAttached(position, added);
    } catch (error) {
      const { wasExecuted, failedAdd } = chain;
      if (!wasExecuted) record.note(position, { state: "planned" });
      else if (failedAdd !== undefined) record.note(position, { state: "attempted", failedAdd });
      throw withNetworkContext(error, planned);
    }
  }
  return { attached, kernel };
}

/** Records that a network is about to be attached. When that fails, it was not attempted. */
async function recordAttempt(ctx: CallContext, record: AddRecord, position: number): Promise<void> {
  record.note(position, { state: "attempted" });
  try {
    await ctx.trace.phase("record", () => record.update());
  } catch (error) {
    record.note(position, { state: "planned" });
    throw error;
  }
}

async function attachNetwork(
  ctx: CallContext,
  { sandbox }: AddRecord,
  { planned, run }: { readonly planned: PlannedAttachment; readonly run: RunDelegate },
): Promise<Attached> {
  const { list, isAuxiliary = false } = planned;
  const conf = runtimeConf(sandbox, planned, ctx.config.delegateTimeoutMs);
  const rt = isAuxiliary ? { ...conf, prevResult: emptyResult(list.cniVersion) } : conf;
  const { raw, result } = await addNetwork(list, rt, run);
  return { planned, raw, result, ignoredRequests: acceptIgnoredRequests(ctx, planned, result) };
}

function emptyResult(cniVersion: string): JsonObject {
  return formatResult({ cniVersion, interfaces: [], ips: [], routes: [] }, cniVersion);
}

class ObservedChain {
  readonly #run: RunDelegate;
  #started = 0;
  #wasExecuted = false;
  #failedAdd: FailedAdd | undefined;

  constructor(run: RunDelegate) {
    this.#run = run;
  }

  get wasExecuted(): boolean {
    return this.#wasExecuted;
  }

  /** The error that the last delegate printed. */
  get failedAdd(): FailedAdd | undefined {
    return this.#failedAdd;
  }

  readonly run: RunDelegate = async (call) => {
    const position = this.#started++;
    const outcome = await this.#run(call);
    if (outcome.outcome !== "missing" && outcome.outcome !== "refused") this.#wasExecuted = true;
    this.#failedAdd = failedAddOf(outcome, position);
    return outcome;
  };
}
