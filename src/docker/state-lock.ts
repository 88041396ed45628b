import { once } from "node:events";
import { mkdir, unlink } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { ifPresent } from "#lib/files/is-absent.ts";

/**
 * Keeps a state directory for this process until it is disposed of or the process ends. A second driver
 * would take the containers of the first for forgotten. The lock is a socket on which its owner listens: the
 * kernel lets go of it with the process, and nobody but root gets into the directory.
 * @throws Error when another process has it, or it cannot be used
 */
export async function lockStateDirectory(dir: string): Promise<AsyncDisposable> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "lock");
  if (await isListening(path)) {
    throw new Error(`another process uses ${dir}: is plexusctl docker running already?`);
  }
  await ifPresent(unlink(path));
  const server = createServer((connection) => connection.destroy());
  server.listen(path);
  await once(server, "listening");
  return { [Symbol.asyncDispose]: () => closed(server) };
}

async function isListening(path: string): Promise<boolean> {
  const connection = connect(path);
  try {
    await once(connection, "connect");
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["ENOENT", "ECONNREFUSED", "ENOTSOCK"].includes(code)) return false;
    throw error;
  } finally {
    connection.destroy();
  }
}

async function closed(server: ReturnType<typeof createServer>): Promise<void> {
  server.close();
  await once(server, "close");
}
