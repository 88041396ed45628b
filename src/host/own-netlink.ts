import { execFile } from "node:child_process";
import { CniError } from "#cni/error.ts";
import type { DelegateHost } from "#engine/ports/host.ts";

const options = {
  encoding: "buffer",
  timeout: 5000,
  maxBuffer: 16 * 1024 * 1024,
  env: {},
} as const;

/**
 * Asks the kernel in this process's network namespace, through the shim, because Node.js has no
 * netlink sockets: only what reads. Its functions throw CniError 5.
 */
export function ownNetlink(shim: string): DelegateHost["netlink"] {
  return (_netns, messages) =>
    new Promise((resolve, reject) => {
      const child = execFile(shim, ["netlink"], options, (cause, stdout, stderr) => {
        if (cause === null) return resolve(stdout);
        const message = `${shim} cannot ask the kernel: ${stderr.toString().trim() || cause.message}`;
        reject(new CniError("IoFailure", message, { cause }));
      });
      // A shim that ends before it has read has said why.
      child.stdin?.on("error", () => undefined).end(messages);
    });
}
