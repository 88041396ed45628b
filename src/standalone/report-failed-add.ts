import { once } from "node:events";
import { request } from "node:http";
import type { Failure } from "#engine/explain/explain-error.ts";
import type { CalledPod } from "#engine/ports/cluster.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";

const timeoutMs = 500;

/** Tells plexusd, if it runs, why a pod was not attached: `plexusctl explain` and `doctor` ask it. */
export async function reportFailedAdd(
  callSocket: string,
  { namespace, name, uid }: CalledPod,
  failure: Failure,
): Promise<void> {
  const socketPath = adminSocketPath(callSocket);
  const path = `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/failed-add`;
  const signal = AbortSignal.timeout(timeoutMs);
  const outgoing = request({ socketPath, path, method: "POST", signal, agent: false });
  outgoing.end(JSON.stringify({ ...failure, uid }));
  await once(outgoing, "response").catch(() => undefined);
  outgoing.destroy();
}
