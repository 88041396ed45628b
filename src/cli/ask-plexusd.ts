import { request } from "node:http";
import { text } from "node:stream/consumers";
import { adminSocketPath } from "#daemon/admin/node-status.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import { errorMessage } from "#lib/error-message.ts";

const timeoutMs = 15_000;

/** plexusd does not answer on this node. */
export class PlexusdAway extends Error {
  override readonly name = "PlexusdAway";
}

/**
 * The answer of plexusd on this node to a path, as JSON.
 * @throws PlexusdAway when nobody answers, Error with plexusd's own words when it refuses
 */
export async function askPlexusd<T>(callSocket: string, path: string): Promise<T> {
  const socketPath = adminSocketPath(callSocket);
  const { status, body } = await get(socketPath, path).catch((cause: unknown) => {
    const message = `plexusd does not answer at ${socketPath}: ${errorMessage(cause)}`;
    throw new PlexusdAway(message, { cause });
  });
  if (status !== 200) throw new Error(`plexusd answers: ${body}`);
  return JSON.parse(body) as T;
}

/** The path of what plexusd says of a pod. */
export function podPath({ namespace, name }: PodName): string {
  return `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

async function get(socketPath: string, path: string): Promise<{ status: number; body: string }> {
  const signal = AbortSignal.timeout(timeoutMs);
  const outgoing = request({ socketPath, path, signal, agent: false });
  outgoing.end();
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve).once("error", reject);
  });
  return { status: response.statusCode ?? 0, body: await text(response) };
}
