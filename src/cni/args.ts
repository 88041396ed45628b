import { quoteValue } from "#lib/json.ts";
import { CniError } from "./error.ts";

/** CNI_ARGS as key-value pairs, in order. */
export type CniArgs = readonly (readonly [string, string])[];

/** Makes Go plugins ignore keys that they do not know; without it they fail. */
const ignoreUnknown = "IgnoreUnknown";

/**
 * Reads `K=V;K2=V2` (CNI 1.1.0 §2 "CNI_ARGS"). A value may contain `=`; a trailing `;` is allowed.
 * @throws CniError 4 when a part is not a pair, because that part may name the pod
 */
export function parseCniArgs(text: string): [string, string][] {
  return pairsOf(text, (part) => {
    throw new CniError(
      "InvalidEnvironmentVariables",
      `invalid CNI_ARGS: ${quoteValue(part)} is not KEY=VALUE`,
    );
  });
}

/** Reads the CNI_ARGS of a DEL, which must not fail: parts that are not pairs are left out. */
export function parseCniArgsOfDel(text: string): [string, string][] {
  return pairsOf(text, () => []);
}

function pairsOf(text: string, malformed: (part: string) => []): [string, string][] {
  const parts = text.split(";").filter((part) => part !== "");
  return parts.flatMap((part): [string, string][] => {
    const split = part.indexOf("=");
    return split < 1 ? malformed(part) : [[part.slice(0, split), part.slice(split + 1)]];
  });
}

/** Writes CNI_ARGS. @throws CniError 4 for a key or value that would inject another pair */
export function formatCniArgs(pairs: CniArgs): string {
  return pairs.map(formatPair).join(";");
}

function formatPair([key, value]: readonly [string, string]): string {
  if (key === "" || /[;=\0]/.test(key)) {
    throw new CniError(
      "InvalidEnvironmentVariables",
      `CNI_ARGS key ${JSON.stringify(key)} is empty or contains ; or = or NUL`,
    );
  }
  if (/[;\0]/.test(value)) {
    throw new CniError(
      "InvalidEnvironmentVariables",
      `CNI_ARGS ${key}: value ${JSON.stringify(value)} contains ; or NUL`,
    );
  }
  return `${key}=${value}`;
}

/** Merges CNI_ARGS: later values win, at the place of the first. Always sets IgnoreUnknown. */
export function mergeCniArgs(...sources: readonly CniArgs[]): [string, string][] {
  const merged = new Map(sources.flat());
  if (merged.has(ignoreUnknown)) return [...merged.set(ignoreUnknown, "1")];
  return [[ignoreUnknown, "1"], ...merged];
}
