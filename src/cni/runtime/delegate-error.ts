import { CniError, CniErrorCode, type CniErrorOptions, type Reason } from "#cni/error.ts";
import { limits } from "#cni/limits.ts";
import { Problems } from "#lib/document-error.ts";
import { errorMessage } from "#lib/error-message.ts";
import { FieldReader } from "#lib/field-reader.ts";
import { isJsonObject, type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { joinLines, oneLine } from "#lib/one-line.ts";
import type { DelegateCall, DelegateOutcome } from "./delegate.ts";

/** Which attachment's delegate failed. */
interface DelegateErrorOptions extends CniErrorOptions {
  readonly network: string;
  /** "" for STATUS and GC, which concern no interface. */
  readonly ifName: string;
  readonly pluginType: string;
}

/** A delegate's failure: its own code and words, and which network it was for. */
export class DelegateError extends CniError {
  override readonly name = "DelegateError";
  readonly network: string;
  readonly ifName: string;
  readonly pluginType: string;

  constructor(code: number, message: string, options: DelegateErrorOptions) {
    super(code, message, options);
    this.network = options.network;
    this.ifName = options.ifName;
    this.pluginType = options.pluginType;
  }
}

/** What was asked of the delegate, and for which network. */
export interface DelegateContext {
  readonly call: DelegateCall;
  readonly network: string;
}

/** libcni's words for what failed, in `plugin type="T" failed (add)`. */
const verbs: Readonly<Record<string, string>> = {
  ADD: "add",
  DEL: "delete",
  CHECK: "check",
  STATUS: "status",
  GC: "gc",
  VERSION: "version",
};

/** Why a delegate failed, as far as it or its end shows. */
interface Diagnosis {
  readonly code: number;
  readonly message: string;
  readonly details?: string;
  /** Absent where the plugin gave the error itself. */
  readonly reason?: Reason;
}

/** The error of an execution that did not succeed: its stdout decoded, else what else is known. */
export function delegateFailure(outcome: DelegateOutcome, context: DelegateContext): DelegateError {
  return delegateError(diagnose(outcome, context.call), context);
}

/** The error of a delegate that succeeded but printed what is no result. */
export function delegateOutputError(error: unknown, context: DelegateContext): DelegateError {
  const code = error instanceof CniError ? error.code : CniErrorCode.DecodingFailure;
  const isDecoded = code !== CniErrorCode.DecodingFailure && error instanceof CniError;
  const reason = isDecoded ? error.reason : "PluginOutput";
  return delegateError(
    omitUndefined({ code, reason, message: errorMessage(error) }),
    context,
    error,
  );
}

function delegateError(
  { code, message, details, reason }: Diagnosis,
  { call, network }: DelegateContext,
  cause?: unknown,
): DelegateError {
  const command = call.env.CNI_COMMAND ?? "";
  const reword = command === "DEL" ? rewordForDel : joinLines;
  const verb = verbs[command] ?? command.toLowerCase();
  return new DelegateError(
    code,
    `plugin type="${call.type}" failed (${verb}): ${reword(message)}`,
    {
      network,
      ifName: call.env.CNI_IFNAME ?? "",
      pluginType: call.type,
      details: details === undefined ? undefined : reword(details),
      reason,
      cause,
    },
  );
}

/**
 * containerd takes a DEL error with these words for "already gone" and forgets the pod, whatever
 * else failed; so no DEL error of ours has them.
 */
export function rewordForDel(text: string): string {
  return joinLines(text)
    .replaceAll(/no such file or directory/gi, "file is absent")
    .replaceAll(/not\s+found/gi, "absent");
}

function diagnose(outcome: DelegateOutcome, call: DelegateCall): Diagnosis {
  if (outcome.outcome === "exited" && outcome.stdout.trim() !== "") {
    return decodeErrorOutput(outcome.stdout);
  }
  const reason = endings[outcome.outcome];
  const code = CniErrorCode.Internal;
  const ending = describeEnding(outcome, call);
  if (reason === "PluginMissing" || reason === "PluginRefused")
    return { code, reason, message: ending };
  const stderr = oneLine(outcome.stderr);
  const words = stderr === "" ? " with no error message" : `: ${quoteValue(stderr, 500)}`;
  return omitUndefined({ code, reason, message: `netplugin failed${words}: ${ending}` });
}

/** Why a plugin failed that did not end by itself. */
const endings: Readonly<Partial<Record<DelegateOutcome["outcome"], Reason>>> = {
  signaled: "PluginCrashed",
  timeout: "PluginTimeout",
  overflow: "PluginOutput",
  missing: "PluginMissing",
  refused: "PluginRefused",
  failed: "Internal",
};

/** How an execution ended, when the plugin itself did not say. */
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
    default:
      return outcome.message === "" ? outcome.outcome : outcome.message;
  }
}

/** An error that a plugin printed (CNI 1.1.0 §5 "Error"). */
interface ReportedError {
  readonly code: number;
  readonly message: string;
}

/**
 * The error object with which a plugin ended its execution itself. Undefined when it succeeded, was killed, crashed or
 * never ran: what it has done until then is not known.
 */
export function reportedError(outcome: DelegateOutcome): ReportedError | undefined {
  if (outcome.outcome !== "exited" || outcome.code === 0) return undefined;
  const decoded = errorObject(outcome.stdout);
  return decoded === undefined ? undefined : readErrorObject(decoded);
}

/** Reads the error object that the specification wants on stdout: CNI 1.1.0 §5 "Error". */
function decodeErrorOutput(stdout: string): Diagnosis {
  const decoded = errorObject(stdout);
  if (decoded !== undefined) return readErrorObject(decoded);
  return {
    code: CniErrorCode.DecodingFailure,
    reason: "PluginOutput",
    message: `netplugin failed but its diagnostic message is no error object: ${quoteValue(oneLine(stdout), 500)}`,
  };
}

function errorObject(stdout: string): JsonObject | undefined {
  const decoded = stdout.length > limits.result.max ? undefined : tryParseJson(stdout);
  return isJsonObject(decoded) ? decoded : undefined;
}

function readErrorObject(decoded: JsonObject): Diagnosis {
  // What is wrong with an error object is no reason to lose the rest of it.
  const ignored = new Problems();
  const fields = new FieldReader(decoded, { path: "", problems: ignored, foldCase: true });
  const msg = oneLine(fields.string("msg") ?? "");
  const details = oneLine(fields.string("details") ?? "");
  return {
    // Codes are non-negative integers; libcni refuses a whole error for another one.
    code: fields.integer("code") ?? CniErrorCode.Internal,
    message: msg === "" ? "netplugin failed with no error message" : msg,
    ...(details === "" ? {} : { details }),
  };
}

function tryParseJson(json: string): Json | undefined {
  try {
    return parseJsonText(json);
  } catch {
    return undefined;
  }
}
