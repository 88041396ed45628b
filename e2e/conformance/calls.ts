import { join } from "node:path";
import type { CallOutcome, PrintedError } from "../support/node/cni-call.ts";
import { cniEnvironment } from "../support/node/cni-environment.ts";
import type { PlexusNode } from "../support/node/plexus-node.ts";

/** The commands that a runtime may ask of the engine. */
type Command = "ADD" | "DEL" | "CHECK" | "STATUS" | "GC";

/** A call by its whole CNI environment; an empty value is a missing one. */
export interface RawCall {
  readonly command: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly conf?: object | string;
}

/** The variables of a call that has every one of them, but for the command. */
export function fullEnvironment(node: PlexusNode, netns: string): Record<string, string> {
  const sandbox = { containerId: `c-${netns}`, netns: join("/run/netns", netns) };
  const cniPath = node.cniPath.join(":");
  const { CNI_COMMAND: _, ...variables } = cniEnvironment({ command: "", cniPath, sandbox });
  return variables;
}

/** Calls the shim with exactly these CNI variables. */
export function rawCall(
  node: PlexusNode,
  { command, env = {}, conf }: RawCall,
): Promise<CallOutcome> {
  return node.call({
    command: command as Command,
    conf: conf ?? node.conf({ cniVersion: "1.1.0" }),
    env: { CNI_PATH: "", ...env },
  });
}

/** The error that a call printed as the specification has it; throws when the call did anything else. */
export function specifiedError(outcome: CallOutcome): PrintedError {
  const { exitCode, json, stdout } = outcome;
  const error = json as PrintedError;
  const keys = Object.keys(error ?? {}).filter((key) => key !== "details");
  const isSpecified =
    exitCode === 1 &&
    keys.toSorted().join() === "cniVersion,code,msg" &&
    Number.isInteger(error.code) &&
    error.code >= 0 &&
    error.msg !== "";
  if (isSpecified) return error;
  throw new Error(`expected a CNI error with exit status 1, got ${exitCode}: ${stdout}`);
}
