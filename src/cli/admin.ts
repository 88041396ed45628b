import { once } from "node:events";
import { type IncomingMessage, type RequestOptions, request } from "node:http";
import { text } from "node:stream/consumers";
import type { PodName } from "#engine/ports/cluster.ts";
import { errorMessage } from "#lib/error-message.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { commonFlags } from "./flags.ts";
import { outputFlag } from "./output-format.ts";

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

interface AdminRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly timeoutMs?: number;
}

/** Gets JSON from plexusd's admin socket. @throws PlexusdUnavailable, or Error for a failure */
export async function askAdmin<T>(
  callSocket: string,
  path: string,
  { method = "GET", timeoutMs = 15_000 }: AdminRequest = {},
): Promise<T> {
  const socketPath = adminSocketPath(callSocket);
  const signal = AbortSignal.timeout(timeoutMs);
  const answer = send({ socketPath, path, method, signal, agent: false });
  const { status, body } = await answer.catch((cause: unknown) => {
    const message = `plexusd does not answer at ${socketPath}: ${errorMessage(cause)}: ${startStep}`;
    throw new PlexusdUnavailable(message, { cause });
  });
  if (status !== 200) throw new Error(`plexusd answers: ${body}`);
  return JSON.parse(body) as T;
}

async function send(options: RequestOptions): Promise<{ status: number; body: string }> {
  const [response] = (await once(request(options).end(), "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}

/**
 * Reads `NAMESPACE/NAME`; a name without a namespace is in `default`, as for kubectl.
 * @throws Error for anything else
 */
export function podName(reference = ""): PodName {
  const parts = reference.split("/");
  const [first = "", second] = parts;
  if (parts.length > 2 || parts.includes(""))
    throw new Error(`${JSON.stringify(reference)} is not NAMESPACE/NAME of a pod`);
  return second === undefined
    ? { namespace: "default", name: first }
    : { namespace: first, name: second };
}

/** The admin path of a pod. */
export function podPath({ namespace, name }: PodName): string {
  return `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
