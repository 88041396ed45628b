import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { asCniError, CniError, withNetworkContext } from "#cni/error.ts";
import { formatResult } from "#cni/result/format.ts";
import type { Result } from "#cni/result/result.ts";
import { type AddOptions, addNetwork } from "#cni/runtime/chain.ts";
import { type DelegateOutcome, type RunDelegate, wasExecuted } from "#cni/runtime/delegate.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import type { AddedNetwork } from "#cni/runtime/delegate-output.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { removesByAddress } from "#engine/del/chain/held-address.ts";
import { provideDeviceInfo } from "#engine/network-status/device-info.ts";
import type { AttachmentPlan } from "#engine/plan/plan-attachments.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { requirePlugins } from "#engine/plan/plugins/find-plugins.ts";
import { checkSizeWithResults } from "#engine/plan/record-size.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import { type IgnoredRequest, ignoredRequests, ignoredText } from "#npwg/served-requests.ts";
import type { AddRecord, Attached } from "./add-record.ts";
import { claimDevices } from "./claim-devices.ts";
import { type KernelInterfaces, kernelInterfaces } from "./kernel-interfaces.ts";
import { namingLinks } from "./named-links.ts";
import { requiringAll } from "./required-plugins.ts";

/** Networks to attach. */
interface NetworksToAttach extends Pick<AttachmentPlan, "attachments" | "recordBytes"> {
  /** Is awaited before the first network that is not the default one. */
  readonly beforeOthers?: () => Promise<void>;
  /** Is awaited before each further plugin, with what its network has by then. */
  readonly betweenPlugins?: (partial: Attached) => Promise<void>;
}

interface AttachedNetworks {
  readonly attached: readonly Attached[];
  /** The interfaces after the last delegate, listed without an extra round trip. */
  readonly kernel: Promise<KernelInterfaces>;
}

/**
 * Attaches the networks in order, up to the first that fails; the caller rolls back what the record
 * says. While the plugins of one network run, the record is written with the earlier results and the
 * next attempt, so that a teardown after a crash knows everything that may have run. It is written
 * also while each further plugin runs whose DEL, or an earlier one's, needs the result so far.
 * A network whose first plugin could not be executed was not attempted: its DEL would fail for the
 * same reason. A network whose result makes the record too long has failed. First, their devices
 * are claimed.
 * @throws CniError with the failing delegate's code, naming its network
 */
export async function attachNetworks(
  ctx: CallContext,
  record: AddRecord,
  { attachments, recordBytes, beforeOthers, betweenPlugins }: NetworksToAttach,
): Promise<AttachedNetworks> {
  const attached: Attached[] = [];
  let kernel: AttachedNetworks["kernel"] = Promise.resolve(undefined);
  let recorded = Promise.resolve();
  await claimDevices(ctx, record.sandbox, attachments);
  const firstOther = attachments.find((each) => !each.isDefault && each.isAuxiliary !== true);
  for (const [position, planned] of attachments.entries()) {
    await recorded;
    if (planned === firstOther) await beforeOthers?.();
    record.note(planned, { state: "attempted" });
    const delegates = requiringAll(ctx, attachments, planned);
    let partialResult: JsonObject | undefined;
    const onResult = async (added: AddedNetwork): Promise<void> => {
      const partial = { planned, ...added, ignoredRequests: [] };
      checkSizeWithResults(recordBytes, [...attached, partial]);
      partialResult = added.raw;
      if (progress.position + 1 < planned.list.plugins.length) await betweenPlugins?.(partial);
    };
    const { run, progress } = observed(delegates, (started) => {
      record.note(planned, {}, partialResult);
      if (started === 1 ? position > 0 : needResult(planned.list.plugins.slice(0, started))) {
        recorded = recorded.then(() => ctx.trace.phase("record", () => record.updateAhead()));
        recorded.catch(() => undefined);
      }
      if (planned !== attachments.at(-1) || started < planned.list.plugins.length) return;
      kernel = kernelInterfaces(ctx, record.sandbox.netns);
      // An ADD that fails does not wait for it.
      kernel.catch(() => undefined);
    });
    try {
      await provideDeviceInfo(ctx, record.sandbox.containerId, planned);
      const added = await attachNetwork(ctx, record, { planned, run, onResult });
      checkSizeWithResults(recordBytes, [...attached, added]);
      attached.push(added);
      record.noteAttached([added]);
    } catch (error) {
      const { isAttempted } = progress;
      const state = isAttempted ? ("attempted" as const) : ("planned" as const);
      const failedAdd = failedAddOf(progress, error);
      record.note(withoutUnexecuted(planned, progress), { state, failedAdd }, partialResult);
      // The rollback writes the same file.
      await recorded.catch(() => undefined);
      // Names the plugins for which the first one was not executed.
      if (!isAttempted && position === 0)
        await requirePlugins(ctx, attachments, planned.searchPath);
      throw withNetworkContext(await namingLinks(ctx, error, planned.list), planned);
    }
  }
  await recorded;
  return { attached, kernel };
}

function needResult(plugins: readonly PluginConf[]): boolean {
  return plugins.some(({ raw }) => removesByAddress(raw));
}

/** The delegates of a chain. `ordered` gets the number that the shim has been sent. */
function observed(run: RunDelegate, ordered: (started: number) => void): ObservedChain {
  let started = 0;
  const progress: ObservedChain["progress"] = { isAttempted: false, position: 0, last: undefined };
  const observe: RunDelegate = async (call) => {
    const position = started++;
    const running = run(call);
    ordered(started);
    const outcome = await running;
    if (wasExecuted(outcome)) progress.isAttempted = true;
    Object.assign(progress, { position, last: outcome });
    return outcome;
  };
  return { run: observe, progress };
}

interface ObservedChain {
  readonly run: RunDelegate;
  readonly progress: {
    isAttempted: boolean;
    /** Of the last delegate in its chain, and how it ended; undefined before that. */
    position: number;
    last: DelegateOutcome | undefined;
  };
}

type Progress = ObservedChain["progress"];

const messageMax = 1024;

/** How the last delegate ended the ADD, unless it succeeded: then something else did. */
function failedAddOf(
  { position, last }: Progress,
  error: unknown,
): RecordedAttachment["failedAdd"] {
  if (last === undefined || (last.outcome === "exited" && last.code === 0)) return undefined;
  const { code, message } = asCniError(error);
  return { position, code, message: message.slice(0, messageMax) };
}

/** The network without a plugin that could not be executed and those behind it, which owe no DEL. */
function withoutUnexecuted(
  planned: PlannedAttachment,
  { position, last }: Progress,
): PlannedAttachment {
  if (last === undefined || wasExecuted(last)) return planned;
  const plugins = planned.list.plugins.slice(0, position);
  return { ...planned, list: { ...planned.list, plugins } };
}

async function attachNetwork(
  ctx: CallContext,
  { sandbox }: AddRecord,
  { planned, ...options }: { readonly planned: PlannedAttachment } & AddOptions,
): Promise<Attached> {
  const { list, isAuxiliary = false } = planned;
  const { cniVersion } = list;
  const conf = runtimeConf(sandbox, planned, ctx.config.delegateTimeoutMs);
  const nothing = { cniVersion, interfaces: [], ips: [], routes: [] };
  const rt = isAuxiliary ? { ...conf, prevResult: formatResult(nothing, cniVersion) } : conf;
  const { raw, result } = await addNetwork(list, rt, options);
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
  if (ctx.config.strictness === "standard") throw new CniError("IgnoredRequest", text);
  ctx.logger.warn({ network: displayName, ifName }, `network ${displayName} (${ifName}): ${text}`);
  return ignored;
}
