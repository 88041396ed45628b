import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeFrame } from "./frames.ts";
import type { Bench } from "./harness.ts";

/**
 * Installs a test engine as plexus-standalone, and returns its path. The script runs as an ES module and as CommonJS:
 * a package.json in a parent directory decides which.
 */
export function standalone(bench: Bench, script: string, mode = 0o755): string {
  const path = join(bench.dir, "plexus-standalone");
  writeFileSync(path, `#!${process.execPath}\n${engine(script)}`, { mode });
  return path;
}

/** Likewise an engine that is no script, so that its process is known by its executable. */
export function standaloneExecutable(bench: Bench, script: string): Record<string, string> {
  const path = join(bench.dir, "plexus-engine");
  symlinkSync(process.execPath, path);
  writeFileSync(`${path}.mjs`, engine(script));
  return { PLEXUS_STANDALONE: path, NODE_OPTIONS: `--import=${path}.mjs` };
}

const engine = (script: string): string => `
const [net, fs] = ["node:net", "node:fs"].map(process.getBuiltinModule);
const encodeFrame = ${encodeFrame.toString()};
const socket = new net.Socket({ fd: 3 });
${script}`;

/** A script that declines each call, as if it lacked the credentials that plexusd has. */
export const declining =
  'socket.once("data", () => socket.end(encodeFrame(6, [75, "{\\"code\\":11}", ""])));';

/** A script that answers the call of the shim that starts it. */
export const answering =
  'socket.once("data", () => socket.end(encodeFrame(6, [0, "standalone", ""])));';
