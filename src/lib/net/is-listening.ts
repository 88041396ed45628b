import { once } from "node:events";
import { connect } from "node:net";

/**
 * Whether a process listens on a Unix socket: the kernel refuses connections if that process has ended.
 * @throws Error as node:net does when that cannot be known
 */
export async function isListening(path: string): Promise<boolean> {
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
