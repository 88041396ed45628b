import { tryParseJson } from "#cni/document.ts";
import { asCniError, CniErrorCode } from "#cni/error.ts";
import { currentVersion } from "#cni/versions.ts";
import { isJsonObject } from "#lib/json.ts";

/**
 * A plugin's stdout when it fails (CNI 1.1.0 §5 "Error"), indented as Go's plugins do.
 * The version comes from `stdin`'s configuration, even if unsupported. Default: the newest.
 */
export function formatErrorOutput(error: unknown, stdin: string): string {
  const { code, msg, details } = asCniError(error).toJSON();
  const isValid = Number.isSafeInteger(code) && code >= 0;
  const validCode = isValid ? code : CniErrorCode.Internal;
  return JSON.stringify({ cniVersion: versionIn(stdin), code: validCode, msg, details }, null, 4);
}

function versionIn(stdin: string): string {
  const conf = tryParseJson(stdin);
  if (!isJsonObject(conf)) return currentVersion;
  const version = conf.cniVersion ?? "";
  if (typeof version !== "string") return currentVersion;
  return version === "" ? "0.1.0" : version;
}
