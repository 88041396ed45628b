import { tryParseJson } from "#cni/document.ts";
import { CniError, CniErrorCode, type CniErrorOptions } from "#cni/error.ts";
import { limits } from "#cni/limits.ts";
import { isJsonObject, type JsonObject, quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { joinLines, oneLine } from "#lib/one-line.ts";
import { FieldReader } from "#lib/parsing/field-reader.ts";
import { type Reason, reasonRow } from "#lib/reasons.ts";
import { type DelegateCall, type DelegateOutcome, isNotExecutable } from "./delegate.ts";

/** A delegate's failure, with its code and message. */
export class DelegateError extends CniError {
  override readonly name = "DelegateError";
  readonly pluginType: string;

  constructor(code: number, message: string, options: CniErrorOptions & { pluginType: string }) {
    super(code, message, options);
    this.pluginType = options.pluginType;
  }
}

/** An error object is flat, so its brace is among the last. */
const maxAttempts = 20;

interface Diagnosis {
  readonly code: number;
  readonly message: string;
  readonly details?: string;
  /** Absent where the plugin gave the error itself. */
  readonly reason?: Reason;
}

/** The error of a failed execution: the error object on stdout, or else its outcome. */
export function delegateFailure(outcome: DelegateOutcome, call: DelegateCall): DelegateError {
  return delegateError(diagnose(outcome, call), call);
}

/** The error of a delegate that succeeded but printed an invalid result. */
export function delegateOutputError(error: CniError, call: DelegateCall): DelegateError {
  const { code, message } = error;
  const reason = code === CniErrorCode.DecodingFailure ? "PluginOutput" : error.reason;
  return delegateError(omitUndefined({ code, reason, message }), call, error);
}

function delegateError(
  { code, message, details, reason }: Diagnosis,
  { type: pluginType, env }: DelegateCall,
  cause?: unknown,
): DelegateError {
  const command = env.CNI_COMMAND ?? "";
  // libcni's names of the commands.
  const verb = command === "DEL" ? "delete" : command.toLowerCase();
  const prefix = notExecuted.has(reason) ? "" : `plugin type="${pluginType}" failed (${verb}): `;
  return new DelegateError(code, `${prefix}${joinLines(message)}`, {
    pluginType,
    details: details && joinLines(details),
    reason,
    cause,
  });
}

/** Errors about a plugin, which did not give them. */
const notExecuted: ReadonlySet<Reason | undefined> = new Set([
  "PluginMissing",
  "PluginRefused",
  "PluginNotExecutable",
  "StateUnwritable",
  "IoFailure",
]);

function diagnose(outcome: DelegateOutcome, call: DelegateCall): Diagnosis {
  if (outcome.outcome === "exited" && outcome.stdout.trim() !== "") {
    return decodeErrorOutput(outcome.stdout);
  }
  const ofErrno = outcome.outcome === "failed" ? reasonOfErrno(outcome) : undefined;
  const reason = ofErrno ?? endings[outcome.outcome];
  const code = ofErrno === undefined ? CniErrorCode.Internal : reasonRow(ofErrno).code;
  const ending = describeEnding(outcome, call);
  if (notExecuted.has(reason)) return omitUndefined({ code, reason, message: ending });
  const stderr = oneLine(outcome.stderr);
  const words = stderr === "" ? " with no error message" : `: ${quoteValue(stderr, 500)}`;
  return omitUndefined({ code, reason, message: `netplugin failed${words}: ${ending}` });
}

const endings: Readonly<Partial<Record<DelegateOutcome["outcome"], Reason>>> = {
  signaled: "PluginCrashed",
  timeout: "PluginTimeout",
  overflow: "PluginOutput",
  missing: "PluginMissing",
  refused: "PluginRefused",
  failed: "Internal",
};

function reasonOfErrno(outcome: DelegateOutcome): Reason | undefined {
  return isNotExecutable(outcome) ? "PluginNotExecutable" : diskReasons.get(outcome.code);
}

/**
 * By the errno of a disk on which the shim cannot note the plugin's process: a full one, a quota, one
 * that is read-only, and one that fails.
 */
const diskReasons: ReadonlyMap<number, Reason> = new Map([
  [28, "StateUnwritable"],
  [122, "StateUnwritable"],
  [30, "StateUnwritable"],
  [5, "IoFailure"],
]);

function describeEnding(outcome: DelegateOutcome, call: DelegateCall): string {
  switch (outcome.outcome) {
    case "exited":
      return `exit status ${outcome.code}`;
    case "signaled":
      return `killed by signal ${outcome.code}`;
    case "timeout":
      return `timed out after ${call.timeoutMs} ms`;
    case "missing":
      return `failed to find plugin ${JSON.stringify(call.type)} in path [${call.searchPath.join(" ")}]`;
    case "refused":
      return `plugin ${JSON.stringify(call.type)} may not be executed: ${outcome.message}`;
    default:
      return outcome.message === "" ? outcome.outcome : outcome.message;
  }
}

/** Reads the error object on stdout: CNI 1.1.0 §5 "Error". */
function decodeErrorOutput(stdout: string): Diagnosis {
  const decoded = errorObject(stdout) ?? lastErrorObject(stdout);
  if (decoded !== undefined) return readErrorObject(decoded);
  return {
    code: CniErrorCode.DecodingFailure,
    reason: "PluginOutput",
    message: `netplugin failed but its diagnostic message is no error object: ${quoteOutput(stdout)}`,
  };
}

/** What a plugin printed, for messages. */
export function quoteOutput(stdout: string): string {
  return quoteValue(oneLine(stdout), 500);
}

/** The error object at the end of a text: some plugins print log lines or their result before it. */
function lastErrorObject(stdout: string): JsonObject | undefined {
  const parts = stdout.split("{").slice(1).slice(-maxAttempts);
  const endings = parts.map((_, index) => `{${parts.slice(index).join("{")}`);
  return endings.map(errorObject).find((found) => found !== undefined && "msg" in found);
}

function errorObject(text: string): JsonObject | undefined {
  const decoded = text.length > limits.result.max ? undefined : tryParseJson(text);
  return isJsonObject(decoded) ? decoded : undefined;
}

function readErrorObject(decoded: JsonObject): Diagnosis {
  // A wrong field must not hide the rest of the error, so problems are ignored.
  const fields = new FieldReader(decoded, { path: "", problems: [], foldCase: true });
  const msg = oneLine(fields.string("msg") ?? "");
  const details = oneLine(fields.string("details") ?? "");
  return {
    // Codes are non-negative integers; libcni rejects an error with any other code.
    code: fields.integer("code") ?? CniErrorCode.Internal,
    message: msg === "" ? "netplugin failed with no error message" : msg,
    ...(details === "" ? {} : { details }),
  };
}
