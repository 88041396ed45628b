import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeFrame } from "./frames.ts";
import type { Bench } from "./harness.ts";

/**
 * Installs a test engine as plexus-standalone, and returns its path. The script runs as an ES module and as CommonJS:
 * a package.json in a parent directory decides which.
 */
export function standalone(bench: Bench, script: string, mode = 0o755): string {
  const path = join(bench.dir, "plexus-standalone");
  const codec = encodeFrame.toString();
  const text = `#!${process.execPath}
const [net, fs] = ["node:net", "node:fs"].map(process.getBuiltinModule);
const encodeFrame = ${codec};
const socket = new net.Socket({ fd: 3 });
${script}`;
  writeFileSync(path, text, { mode });
  return path;
}

/** A script that declines each call, as if it lacked the credentials that plexusd has. */
export const declining =
  'socket.once("data", () => socket.end(encodeFrame(6, [75, "{\\"code\\":11}", ""])));';

/** A script that answers the call of the shim that starts it. */
export const answering =
  'socket.once("data", () => socket.end(encodeFrame(6, [0, "standalone", ""])));';
