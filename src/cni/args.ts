import { quoteValue } from "#lib/json.ts";
import { CniError, CniErrorCode } from "./error.ts";

/** CNI_ARGS as key-value pairs, in order. */
export type CniArgs = readonly (readonly [string, string])[];

/** Makes Go plugins pass over keys that they do not know; without it they fail. */
const ignoreUnknown = "IgnoreUnknown";

/**
 * Reads `K=V;K2=V2` (CNI 1.1.0 §2 "CNI_ARGS"). A value may hold `=`, and a `;` may be at the end.
 * @throws CniError 4 when a part is no pair: it may be what names the pod
 */
export function parseCniArgs(text: string): [string, string][] {
  return partsOf(text).map((part) => {
    const pair = pairOf(part);
    if (pair !== undefined) return pair;
    throw new CniError(
      CniErrorCode.InvalidEnvironmentVariables,
      `invalid CNI_ARGS: ${quoteValue(part)} is not KEY=VALUE`,
    );
  });
}

/** The same for a DEL, which must go through whatever it brings: parts that are no pairs are left out. */
export function parseCniArgsOfDel(text: string): [string, string][] {
  return partsOf(text).flatMap((part) => {
    const pair = pairOf(part);
    return pair === undefined ? [] : [pair];
  });
}

function partsOf(text: string): string[] {
  return text.split(";").filter((part) => part !== "");
}

function pairOf(part: string): [string, string] | undefined {
  const split = part.indexOf("=");
  return split < 1 ? undefined : [part.slice(0, split), part.slice(split + 1)];
}

/**
 * Writes CNI_ARGS.
 * @throws CniError 4 when a key or value would end its pair early and so bring in another one.
 */
export function formatCniArgs(pairs: CniArgs): string {
  return pairs.map(formatPair).join(";");
}

function formatPair([key, value]: readonly [string, string]): string {
  if (key === "" || /[;=\0]/.test(key)) {
    throw new CniError(
      CniErrorCode.InvalidEnvironmentVariables,
      `CNI_ARGS key ${JSON.stringify(key)} is empty or contains ; or = or NUL`,
    );
  }
  if (/[;\0]/.test(value)) {
    throw new CniError(
      CniErrorCode.InvalidEnvironmentVariables,
      `CNI_ARGS ${key}: value ${JSON.stringify(value)} contains ; or NUL`,
    );
  }
  return `${key}=${value}`;
}

/**
 * The CNI_ARGS of a delegate: the pairs of every source, each key once and where it came first;
 * later pairs win. IgnoreUnknown is always on.
 */
export function mergeCniArgs(...sources: readonly CniArgs[]): [string, string][] {
  const merged = new Map(sources.flat());
  if (merged.has(ignoreUnknown)) return [...merged.set(ignoreUnknown, "1")];
  return [[ignoreUnknown, "1"], ...merged];
}
