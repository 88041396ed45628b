import { CniError } from "./error.ts";

/** The supported versions of the CNI specification, oldest first. */
export const supportedVersions = [
  "0.1.0",
  "0.2.0",
  "0.3.0",
  "0.3.1",
  "0.4.0",
  "1.0.0",
  "1.1.0",
] as const;

export const currentVersion = "1.1.0";

/** A version as numbers: major, minor, micro. */
type VersionParts = readonly [number, number, number];

/** Splits a version: "" is 0.1.0, missing parts are 0. @throws CniError 6 for another format */
export function parseVersion(version: string): VersionParts {
  if (version === "") return [0, 1, 0];
  if (!/^\d{1,9}(\.\d{1,9}){0,2}$/.test(version)) {
    throw new CniError(
      "DecodingFailure",
      `invalid CNI version ${JSON.stringify(version)}: not one to three numbers with dots between`,
    );
  }
  const [major = 0, minor = 0, micro = 0] = version.split(".").map(Number);
  return [major, minor, micro];
}

/** Negative when `a` is older than `b`, 0 when both are the same. @throws CniError 6 as parseVersion() */
export function compareVersions(a: string, b: string): number {
  const left = parseVersion(a);
  const right = parseVersion(b);
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** Whether `version` is `minimum` or newer. @throws CniError 6 as parseVersion() */
export function isAtLeast(version: string, minimum: string): boolean {
  return compareVersions(version, minimum) >= 0;
}

/** Whether Plexus knows the version; "" is 0.1.0. */
export function isSupportedVersion(version: string): boolean {
  return version === "" || supportedVersions.some((supported) => supported === version);
}

/**
 * @param source where a list has the version, for the message
 * @throws CniError 1 with the message of Go's plugins when the version is not supported
 */
export function requireSupportedVersion(version: string, source?: string): void {
  if (isSupportedVersion(version)) return;
  const list = supportedVersions.map((supported) => JSON.stringify(supported)).join(" ");
  const where = source === undefined ? "" : `${source}: `;
  throw new CniError("IncompatibleCniVersion", `${where}incompatible CNI versions`, {
    details: `config is ${JSON.stringify(version)}, plugin supports [${list}]`,
  });
}

/**
 * Chooses the version of a list: the highest supported one of `cniVersion` and `cniVersions` (CNI
 * 1.1.0 §1 "cniVersions"). Of a later minor version alone, it is the newest supported version:
 * plugins support the earlier ones too. Otherwise `cniVersion` itself, which is not supported.
 * @throws CniError 6 when one of them is not a version
 */
export function negotiateVersion(cniVersion: string, cniVersions: readonly string[]): string {
  const sorted = [cniVersion, ...cniVersions].toSorted(compareVersions);
  const isLaterMinor = isAtLeast(cniVersion, currentVersion) && !isAtLeast(cniVersion, "2");
  return sorted.findLast(isSupportedVersion) ?? (isLaterMinor ? currentVersion : cniVersion);
}

/** The three result formats: until 0.2.0, until 0.4.0, and since 1.0.0. */
export type ResultFamily = "0.2" | "0.4" | "1";

/** The result format of a version; undefined when the version is unknown. */
export function resultFamily(cniVersion: string): ResultFamily | undefined {
  if (!isSupportedVersion(cniVersion)) return undefined;
  if (cniVersion === "" || cniVersion === "0.1.0" || cniVersion === "0.2.0") return "0.2";
  return cniVersion.startsWith("0.") ? "0.4" : "1";
}
