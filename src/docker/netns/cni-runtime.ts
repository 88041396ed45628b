import { tryParseJson } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import { runProgram } from "#lib/run-program.ts";

/** Far more than the shim waits for locks and plugins. */
const timeoutMs = 600_000;

/** A CNI call for an endpoint. @internal */
export interface CniCall {
  readonly containerId: string;
  /** "" when the namespace is gone. */
  readonly netns: string;
  readonly ifName: string;
  /** Plexus's configuration, with the network as its delegate. */
  readonly conf: JsonObject;
}

/** The runtime side of CNI. Every method throws a CniError. */
export interface CniRuntime {
  add(call: CniCall): Promise<void>;
  del(call: CniCall): Promise<void>;
}

/**
 * Executes the shim as container runtimes do. The shim calls the engine of this process, holds the
 * endpoint's lock, and replays the teardown plan when this process dies during a call.
 */
export function shimRuntime(options: {
  readonly shim: string;
  readonly cniPath: string;
  /** The call socket of this process's engine. */
  readonly socket: string;
  readonly stateDir: string;
}): CniRuntime {
  const { shim, cniPath, socket, stateDir } = options;
  const run = async (command: "ADD" | "DEL", call: CniCall): Promise<void> => {
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: call.containerId,
      CNI_NETNS: call.netns,
      CNI_IFNAME: call.ifName,
      CNI_PATH: cniPath,
      PLEXUS_SOCKET: socket,
      PLEXUS_STATE_DIR: stateDir,
      PLEXUS_STANDALONE: "",
    };
    const input = JSON.stringify(call.conf);
    const options = { input, env, mayFail: true, timeoutMs };
    const { exitCode, stdout, stderr } = await runProgram([shim], options);
    if (exitCode === 0) return;
    const message = `${shim} ended with ${exitCode}: ${stderr.trim()}`;
    throw printedError(stdout) ?? new CniError("Internal", message);
  };
  return { add: (call) => run("ADD", call), del: (call) => run("DEL", call) };
}

function printedError(stdout: string): CniError | undefined {
  const { code, msg } = objectOf(tryParseJson(stdout));
  if (typeof msg !== "string") return undefined;
  return new CniError(typeof code === "number" ? code : CniErrorCode.Internal, msg);
}
