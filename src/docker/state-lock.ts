import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { isListening } from "#lib/net/is-listening.ts";

/**
 * Locks a state directory for this process: a second driver would detach the first one's containers
 * as forgotten. The lock is a socket with a listener, which the kernel closes with the process.
 * @throws Error when another process holds the lock, or the directory cannot be used
 */
export async function lockStateDirectory(dir: string): Promise<AsyncDisposable> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "lock");
  if (await isListening(path)) {
    throw new Error(`another process uses ${dir}: is plexusctl docker running already?`);
  }
  await rm(path, { force: true });
  const server = createServer((connection) => connection.destroy()).listen(path);
  await once(server, "listening");
  return server;
}
