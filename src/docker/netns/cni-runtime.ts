import { CniError, CniErrorCode } from "#cni/error.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { runProgram } from "./run-program.ts";

/** One call for an endpoint. */
export interface CniCall {
  readonly containerId: string;
  /** "" = there is none any more. */
  readonly netns: string;
  readonly ifName: string;
  /** The configuration of Plexus itself, with the network as its delegate. */
  readonly conf: JsonObject;
}

/** A container runtime's side of CNI. Every method throws a CniError. */
export interface CniRuntime {
  add(call: CniCall): Promise<void>;
  del(call: CniCall): Promise<void>;
}

/** Where the shim is, and what it is to use. */
export interface ShimRuntimeOptions {
  readonly shim: string;
  /** Directories of plugins. */
  readonly binDirs: readonly string[];
  /** The socket on which this process's engine serves the shim. */
  readonly socket: string;
  readonly stateDir: string;
}

/**
 * Executes the shim as container runtimes do. The calls come back to the engine of this process by its
 * socket. The shim holds the lock of its endpoint, and detaches by the teardown plan what was attached
 * when this process dies meanwhile.
 */
export class ShimRuntime implements CniRuntime {
  readonly #options: ShimRuntimeOptions;

  constructor(options: ShimRuntimeOptions) {
    this.#options = options;
  }

  add(call: CniCall): Promise<void> {
    return this.#call("ADD", call);
  }

  del(call: CniCall): Promise<void> {
    return this.#call("DEL", call);
  }

  async #call(command: "ADD" | "DEL", call: CniCall): Promise<void> {
    const { shim, binDirs, socket, stateDir } = this.#options;
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: call.containerId,
      CNI_NETNS: call.netns,
      CNI_IFNAME: call.ifName,
      CNI_PATH: binDirs.join(":"),
      PLEXUS_SOCKET: socket,
      PLEXUS_STATE_DIR: stateDir,
      PLEXUS_STANDALONE: "",
    };
    const options = { input: JSON.stringify(call.conf), env, mayFail: true };
    const { exitCode, stdout, stderr } = await runProgram([shim], options);
    if (exitCode !== 0) throw printedError(stdout) ?? silentFailure({ shim, exitCode, stderr });
  }
}

function printedError(stdout: string): CniError | undefined {
  try {
    const printed: unknown = JSON.parse(stdout);
    if (!isJsonObject(printed) || typeof printed.msg !== "string") return undefined;
    const code = typeof printed.code === "number" ? printed.code : CniErrorCode.Internal;
    return new CniError(code, printed.msg);
  } catch {
    return undefined;
  }
}

function silentFailure(of: { shim: string; exitCode: number; stderr: string }): CniError {
  const { shim, exitCode, stderr } = of;
  return new CniError(CniErrorCode.Internal, `${shim} ended with ${exitCode}: ${stderr.trim()}`);
}
