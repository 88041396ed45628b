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
import type { AttachmentRecord, FailedAdd } from "#engine/record/record.ts";
import type { RecordSize } from "#engine/record/record-size.ts";
import { updateRecord } from "#engine/record/update-record.ts";
import type { JsonObject } from "#lib/json.ts";
import { type AttachProgress, withProgress } from "./attachment-record.ts";
import { acceptIgnoredRequests } from "./ignored-requests.ts";
import { KernelInterfaces } from "./kernel-interfaces.ts";

/**
 * What the ADDs of a sandbox's networks have come to. A network whose first plugin could not be
 * executed was not attempted: there is nothing to detach, and its DEL would fail for the same reason.
 */
export type AttachOutcome =
  | (AttachProgress & { readonly status: "attached"; readonly kernel: KernelInterfaces })
  | (AttachProgress & { readonly status: "failed"; readonly error: unknown });

/**
 * Attaches the networks in order, up to the first that fails. What is attached stays: the caller rolls
 * back. Before each network the record says that it is attempted, as it does of the first from the
 * beginning, so that whoever has to tear the sandbox down after a crash leaves alone what never ran. A
 * network with whose result the record becomes too long has failed.
 */
export async function attachNetworks(
  ctx: CallContext,
  record: AttachmentRecord,
  { attachments, size }: Pick<AttachmentPlan, "attachments" | "size">,
): Promise<AttachOutcome> {
  const attached: Attached[] = [];
  const kernel = new KernelInterfaces(ctx, record.netns);
  for (const next of attachments) {
    const listing = next === attachments.at(-1) ? kernel : undefined;
    const outcome = await attachNext(ctx, record, { attached, next, size, listing });
    if (outcome.status === "failed") {
      const attempted = attached.length + (outcome.wasExecuted ? 1 : 0);
      const { error, failedAdd } = outcome;
      const ending = failedAdd === undefined ? {} : { failedAdd };
      return { status: "failed", attached, attempted, error, ...ending };
    }
    attached.push(outcome.attached);
  }
  return { status: "attached", attached, attempted: attached.length, kernel };
}

/** The next network to attach, after those that are. */
interface AttachStep {
  readonly attached: readonly Attached[];
  readonly next: PlannedAttachment;
  readonly size: RecordSize;
  /** Lists the sandbox's interfaces behind the last plugin; for the last network. */
  readonly listing: KernelInterfaces | undefined;
}

async function attachNext(
  ctx: CallContext,
  record: AttachmentRecord,
  { attached, ...step }: AttachStep,
): Promise<NetworkOutcome> {
  try {
    const progress = withProgress(record, { attached, attempted: attached.length + 1 });
    if (attached.length > 0) await ctx.trace.phase("record", () => updateRecord(ctx, progress));
  } catch (error) {
    return { status: "failed", wasExecuted: false, error };
  }
  return attachNetwork(ctx, record, step);
}

type NetworkOutcome =
  | { readonly status: "attached"; readonly attached: Attached }
  | {
      readonly status: "failed";
      readonly wasExecuted: boolean;
      readonly error: unknown;
      readonly failedAdd?: FailedAdd | undefined;
    };

async function attachNetwork(
  ctx: CallContext,
  record: AttachmentRecord,
  { next: planned, size, listing }: Omit<AttachStep, "attached">,
): Promise<NetworkOutcome> {
  const chain = new ObservedChain(ctx.delegateRunner(planned.displayName));
  const { list, isAuxiliary = false } = planned;
  const run = listing?.listedBehind(list.plugins.length, chain.run) ?? chain.run;
  const conf = runtimeConf(record, planned, ctx.config.delegateTimeoutMs);
  const rt = isAuxiliary ? { ...conf, prevResult: emptyResult(list.cniVersion) } : conf;
  await provideDeviceInfo(ctx, record.containerId, planned);
  try {
    const { raw, result } = await addNetwork(list, rt, run);
    const ignoredRequests = acceptIgnoredRequests(ctx, planned, result);
    size.addResult(planned, raw, ignoredRequests);
    return { status: "attached", attached: { planned, raw, result, ignoredRequests } };
  } catch (error) {
    const { wasExecuted, failedAdd } = chain;
    return { status: "failed", wasExecuted, failedAdd, error: withNetworkContext(error, planned) };
  }
}

function emptyResult(cniVersion: string): JsonObject {
  return formatResult({ cniVersion, interfaces: [], ips: [], routes: [] }, cniVersion);
}

/** Runs the delegates of a chain, and notes what became of them. */
class ObservedChain {
  readonly #run: RunDelegate;
  #started = 0;
  #wasExecuted = false;
  #failedAdd: FailedAdd | undefined;

  constructor(run: RunDelegate) {
    this.#run = run;
  }

  /** Whether any was found and executed. */
  get wasExecuted(): boolean {
    return this.#wasExecuted;
  }

  /** How the last one failed by itself. */
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
