import { CniError } from "#cni/error.ts";
import { formatResult } from "#cni/result/format.ts";
import type { Result } from "#cni/result/result.ts";
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
import { type IgnoredRequest, ignoredRequests, ignoredText } from "#npwg/served-requests.ts";
import type { AddRecord } from "./add-record.ts";
import { type KernelInterfaces, kernelInterfaces } from "./kernel-interfaces.ts";

interface AttachedNetworks {
  readonly attached: readonly Attached[];
  /** The interfaces after the last delegate, listed without an extra round trip. */
  readonly kernel: Promise<KernelInterfaces>;
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
  let kernel: AttachedNetworks["kernel"] = Promise.resolve(undefined);
  for (const [position, planned] of attachments.entries()) {
    if (position > 0) await recordAttempt(ctx, record, position);
    const { run, progress } = observed(ctx.delegateRunner(planned.displayName), (started) => {
      if (planned !== attachments.at(-1) || started < planned.list.plugins.length) return;
      kernel = kernelInterfaces(ctx, record.sandbox.netns);
      // An ADD that fails does not wait for it.
      kernel.catch(() => undefined);
    });
    try {
      await provideDeviceInfo(ctx, record.sandbox.containerId, planned);
      const added = await attachNetwork(ctx, record, { planned, run });
      checkSizeWithResults(recordBytes, [...attached, added]);
      attached.push(added);
      record.noteAttached(position, added);
    } catch (error) {
      const { wasExecuted, failedAdd } = progress;
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

/** The delegates of a chain. `ordered` gets the number of those that the shim has been sent. */
function observed(run: RunDelegate, ordered: (started: number) => void): ObservedChain {
  let started = 0;
  const progress: ObservedChain["progress"] = { wasExecuted: false, failedAdd: undefined };
  const observe: RunDelegate = async (call) => {
    const position = started++;
    const running = run(call);
    ordered(started);
    const outcome = await running;
    if (outcome.outcome !== "missing" && outcome.outcome !== "refused") progress.wasExecuted = true;
    progress.failedAdd = failedAddOf(outcome, position);
    return outcome;
  };
  return { run: observe, progress };
}

interface ObservedChain {
  readonly run: RunDelegate;
  /** `failedAdd` is the error that the last delegate printed. */
  readonly progress: { wasExecuted: boolean; failedAdd: FailedAdd | undefined };
}

async function attachNetwork(
  ctx: CallContext,
  { sandbox }: AddRecord,
  { planned, run }: { readonly planned: PlannedAttachment; readonly run: RunDelegate },
): Promise<Attached> {
  const { list, isAuxiliary = false } = planned;
  const { cniVersion } = list;
  const conf = runtimeConf(sandbox, planned, ctx.config.delegateTimeoutMs);
  const nothing = { cniVersion, interfaces: [], ips: [], routes: [] };
  const rt = isAuxiliary ? { ...conf, prevResult: formatResult(nothing, cniVersion) } : conf;
  const { raw, result } = await addNetwork(list, rt, run);
  return { planned, raw, result, ignoredRequests: acceptIgnoredRequests(ctx, planned, result) };
}

/**
 * The requests of the pod that a network ignored, according to its result; logs a warning.
 * @throws CniError 100 naming plugins, keys and values, unless the configuration attaches such pods
 */
function acceptIgnoredRequests(
  ctx: CallContext,
  { selection, list, ifName, displayName }: PlannedAttachment,
  result: Result,
): readonly IgnoredRequest[] {
  if (selection === undefined) return [];
  const ignored = ignoredRequests(selection, { ifName, list, result });
  if (ignored.length === 0) return ignored;
  const text = ignoredText(ignored, list);
  if (ctx.config.ignoredRequests === "fail") throw new CniError("IgnoredRequest", text);
  ctx.logger.warn({ network: displayName, ifName }, `network ${displayName} (${ifName}): ${text}`);
  return ignored;
}
