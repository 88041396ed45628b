import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { adminSocketPath } from "#daemon/admin/node-status.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { errorMessage } from "#lib/error-message.ts";
import { commonFlags } from "./flags.ts";
import { outputFlag } from "./output-format.ts";

const timeoutMs = 15_000;

export const adminFlags = {
  output: outputFlag,
  socket: commonFlags.socket,
} as const;

const startStep =
  "see kubectl describe pod for plexusd's pod on this node, and the logs of its containers install and plexusd";

/** plexusd does not answer on its admin socket. */
export class PlexusdUnavailable extends Error {
  override readonly name = "PlexusdUnavailable";
}

/** Gets JSON from plexusd's admin socket. @throws PlexusdUnavailable, or Error for a failure */
export async function askAdmin<T>(
  callSocket: string,
  path: string,
  how: AdminRequest = { method: "GET", timeoutMs },
): Promise<T> {
  const socketPath = adminSocketPath(callSocket);
  const { status, body } = await send(socketPath, path, how).catch((cause: unknown) => {
    const message = `plexusd does not answer at ${socketPath}: ${errorMessage(cause)}: ${startStep}`;
    throw new PlexusdUnavailable(message, { cause });
  });
  if (status !== 200) throw new Error(`plexusd answers: ${body}`);
  return JSON.parse(body) as T;
}

/** The admin path of a pod. */
export function podPath({ namespace, name }: PodName): string {
  return `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

interface AdminRequest {
  readonly method: "GET" | "POST";
  readonly timeoutMs: number;
}

async function send(
  socketPath: string,
  path: string,
  { method, timeoutMs: ms }: AdminRequest,
): Promise<{ status: number; body: string }> {
  const signal = AbortSignal.timeout(ms);
  const outgoing = request({ socketPath, path, method, signal, agent: false });
  outgoing.end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}
