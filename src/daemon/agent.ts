import { setTimeout as sleep } from "node:timers/promises";
import type { Call, CallHost } from "#engine/call.ts";
import type { Engine } from "#engine/engine.ts";

/** How often an agent's engine looks for leftovers. */
const intervalMs = 10_000;

/** Whether a request comes from `plexus agent`, which carries out orders without a call of a runtime. */
export function isAgent({ env }: Call): boolean {
  return env.CNI_COMMAND === "AGENT";
}

/**
 * Has leftovers torn down by an agent, again and again, until it disconnects or `stopping` is aborted.
 * @throws HostGoneError when it disconnects while an order is carried out
 */
export async function serveAgent(
  engine: Engine,
  request: Call,
  { host, stopping }: { readonly host: CallHost; readonly stopping: AbortSignal },
): Promise<void> {
  const signal = AbortSignal.any([host.gone, stopping]);
  while (!signal.aborted) {
    if (await engine.retryLeftover(request, host)) continue;
    await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
  }
}
