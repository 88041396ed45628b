import { parseJson } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import { withUnknownFields } from "#cni/result/extras.ts";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import { resultFamily } from "#cni/versions.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { DelegateCall } from "./delegate.ts";
import { delegateOutputError, quoteOutput } from "./delegate-error.ts";

/** The result of an ADD. */
export interface AddedNetwork {
  /** In the list's version, including fields beyond the specification. */
  readonly raw: JsonObject;
  readonly result: Result;
}

/**
 * Reads the result of an ADD and, as other runtimes do, converts it to the list's version.
 * @throws DelegateError 6 when it is not a result, 100 when it is too long
 */
export function readAddOutput(
  stdout: string,
  cniVersion: string,
  call: DelegateCall,
): AddedNetwork {
  try {
    checkTextLimit(limits.result, stdout, "the result");
    if (stdout.trim() === "") {
      throw new CniError("DecodingFailure", "cannot decode result: nothing was printed");
    }
    return convert(parseOutput(stdout), cniVersion);
  } catch (error) {
    if (error instanceof CniError) throw delegateOutputError(error, call);
    throw error;
  }
}

/**
 * Converts a result to a list's version. Fields beyond the specification are kept if both versions
 * have the same format.
 * @throws CniError 6 when it is not a result, 1 when it cannot be converted
 */
export function inListVersion(printed: unknown, cniVersion: string): JsonObject {
  return convert(printed, cniVersion).raw;
}

function convert(printed: unknown, cniVersion: string): AddedNetwork {
  const result = parseResult(printed, { fallbackVersion: cniVersion });
  const converted = formatResult(result, cniVersion);
  const isSameShape = resultFamily(result.cniVersion) === resultFamily(cniVersion);
  const keeps = isSameShape && isJsonObject(printed);
  const raw = keeps ? withUnknownFields(converted, printed) : converted;
  if (result.cniVersion === converted.cniVersion) return { raw, result };
  return { raw, result: parseResult(raw, { fallbackVersion: cniVersion }) };
}

/** @throws CniError 6 with what was printed, such as a log line before the result */
function parseOutput(stdout: string): Json {
  try {
    return parseJson(stdout, "cannot decode result");
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw error.withMessage(`${error.message}; the plugin printed ${quoteOutput(stdout)}`);
  }
}
