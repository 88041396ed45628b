import { CniError } from "#cni/error.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import type { Frame } from "#protocol/frame.ts";
import type { DoneMessage } from "#protocol/messages.ts";

/**
 * The answer to a `REQUEST` of another protocol version: the runtime retries with the executable
 * that the upgrade installs. `DONE` and the first two fields of `REQUEST` are the same in every
 * version.
 */
export function otherReleaseAnswer(request: Frame): DoneMessage {
  const error = new CniError(
    "DaemonUnavailable",
    "the node's plexus executable and plexusd are of different releases; try again after the upgrade",
  );
  const stdin = request.fields[1]?.toString() ?? "";
  return { exitCode: 1, stdout: formatErrorOutput(error, stdin), stderr: "" };
}
