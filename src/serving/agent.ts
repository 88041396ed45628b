import type { Engine } from "#engine/engine.ts";
import type { LeftoverOutcome } from "#engine/leftovers/leftovers.ts";
import type { Call, CallAnswer } from "#engine/ports/call.ts";
import { type CallHost, HostGoneError } from "#engine/ports/host.ts";
import { sandboxName } from "#engine/record/record.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import { oneLine } from "#lib/one-line.ts";

/** How often an agent's engine looks for leftovers. */
export const leftoverIntervalMs = 10_000;

/**
 * Which `plexus agent` a request comes from, which executes orders without a runtime's call. `--once`
 * waits for an answer, and `--attach` may also change running sandboxes.
 */
export function agentOf({ command, env }: Call): "once" | "attach" | "leftovers" | undefined {
  if (command !== "AGENT") return undefined;
  const mode = env.PLEXUS_AGENT;
  return mode === "once" || mode === "attach" ? mode : "leftovers";
}

/** Tears leftovers down once; exit code 1 if some remain. @throws HostGoneError on disconnect */
export async function serveAgentOnce(
  engine: Engine,
  call: Call,
  host: CallHost,
): Promise<CallAnswer> {
  try {
    const outcomes = await engine.retryAllLeftovers(call, host);
    const remains = outcomes.some(({ remainsBecause }) => remainsBecause !== undefined);
    const lines = outcomes.length === 0 ? ["nothing is left over"] : outcomes.map(lineOf);
    return { exitCode: remains ? 1 : 0, stdout: `${lines.join("\n")}\n`, stderr: "" };
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return { exitCode: 1, stdout: "", stderr: `${errorMessage(error)}\n` };
  }
}

function lineOf({ record, remainsBecause }: LeftoverOutcome): string {
  const { containerId, ifName } = record;
  const result = remainsBecause === undefined ? "detached" : `remains: ${oneLine(remainsBecause)}`;
  return `${sandboxName(record)} (${containerId}@${ifName}): ${result}`;
}

/**
 * Tears leftovers down through an agent, until it disconnects or `stopping` is aborted.
 * @throws HostGoneError when the agent disconnects during an order
 */
export async function serveAgent(
  engine: Engine,
  call: Call,
  { host, stopping }: { readonly host: CallHost; readonly stopping: AbortSignal },
): Promise<void> {
  const signal = AbortSignal.any([host.gone, stopping]);
  while (!signal.aborted) {
    if (await engine.retryLeftover(call, host)) continue;
    await pause(leftoverIntervalMs, signal);
  }
}
