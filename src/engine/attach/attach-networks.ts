import { addNetwork } from "#cni/runtime/chain.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/deps.ts";
import {
  type Attached,
  type PlannedAttachment,
  runtimeConf,
  withNetworkContext,
} from "#engine/planned-attachment.ts";
import type { AttachmentRecord } from "#engine/record.ts";

/** The attachments that a sandbox has after the ADDs of its networks. */
export type AttachOutcome =
  | {
      readonly status: "attached";
      readonly attached: readonly Attached[];
      readonly attempted: number;
    }
  | {
      readonly status: "failed";
      /** Those before the failure. */
      readonly attached: readonly Attached[];
      /**
       * How many attachments, from the first, had a delegate executed. A network whose first plugin
       * is missing has none: there is nothing to detach, and its DEL would fail for the same reason.
       */
      readonly attempted: number;
      readonly error: unknown;
    };

/** Attaches the networks in order, up to the first that fails. What is attached stays: the caller rolls back. */
export async function attachNetworks(
  ctx: CallContext,
  record: AttachmentRecord,
  planned: readonly PlannedAttachment[],
): Promise<AttachOutcome> {
  const attached: Attached[] = [];
  for (const attachment of planned) {
    const outcome = await attachNetwork(ctx, record, attachment);
    if (outcome.status === "failed") {
      const attempted = attached.length + (outcome.wasExecuted ? 1 : 0);
      return { status: "failed", attached, attempted, error: outcome.error };
    }
    attached.push(outcome.attached);
  }
  return { status: "attached", attached, attempted: attached.length };
}

type NetworkOutcome =
  | { readonly status: "attached"; readonly attached: Attached }
  | { readonly status: "failed"; readonly wasExecuted: boolean; readonly error: unknown };

async function attachNetwork(
  ctx: CallContext,
  record: AttachmentRecord,
  planned: PlannedAttachment,
): Promise<NetworkOutcome> {
  const executions = new ExecutionCounter(ctx.delegateRunner(planned.displayName));
  const rt = runtimeConf(record, planned, ctx.config.delegateTimeoutMs);
  try {
    const { raw, result } = await addNetwork(planned.list, rt, executions.run);
    return { status: "attached", attached: { planned, raw, result } };
  } catch (error) {
    const wasExecuted = executions.count > 0;
    return { status: "failed", wasExecuted, error: withNetworkContext(error, planned) };
  }
}

/** Runs delegates, and counts those that were found and executed. */
class ExecutionCounter {
  readonly #run: RunDelegate;
  #count = 0;

  constructor(run: RunDelegate) {
    this.#run = run;
  }

  get count(): number {
    return this.#count;
  }

  readonly run: RunDelegate = async (call) => {
    const outcome = await this.#run(call);
    if (outcome.outcome !== "missing" && outcome.outcome !== "refused") this.#count++;
    return outcome;
  };
}
