import { Socket } from "node:net";
import { performance } from "node:perf_hooks";
import process from "node:process";
import { serveOneCall } from "./serve.ts";

/** The shim's end of the socket pair on which it serves orders. */
const shimDescriptor = 3;

/**
 * Serves the one call of the shim that started this process. It prints nothing itself: the answer
 * goes through the shim. Whatever goes wrong before that ends the process, which the shim takes
 * like a daemon's death: it replays the teardown plan and says so.
 */
serveOneCall({
  stream: new Socket({ fd: shimDescriptor, readable: true, writable: true }),
  stateDir: process.env["PLEXUS_STATE_DIR"] ?? "/var/lib/plexus",
  configFile: process.env["PLEXUS_CONFIG"] ?? "/etc/plexus/config.yaml",
  clock: () => performance.now(),
}).then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`plexus-standalone: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
