import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

/*
 * What a call needs to know about the keys of config-keys.ts. Loading zod takes longer than the rest
 * of a call of plexus-standalone, so the usual configurations are accepted without it.
 */

const names = [
  "clusterNetwork",
  "delegates",
  "defaultNetworks",
  "systemNamespaces",
  "plexusNamespace",
  "multusNamespace",
  "namespaceIsolation",
  "globalNamespaces",
  "confDir",
  "binDir",
  "readinessindicatorfile",
  "invalidAnnotation",
  "undeclaredRequests",
  "ignoredRequests",
  "auxiliaryCNIChainName",
  "checkDelegates",
  "missingDevice",
  "markerResources",
] as const;

export type NetworkKey = (typeof names)[number];

/** Defaults of keys that neither the configuration file nor the runtime's configuration has. */
export const networkKeyDefaults = {
  delegates: [] as readonly JsonObject[],
  defaultNetworks: [] as readonly string[],
  systemNamespaces: ["kube-system"] as readonly string[],
  plexusNamespace: "kube-system",
  namespaceIsolation: false as boolean,
  globalNamespaces: ["default"] as readonly string[],
  confDir: defaultPaths.confDir as string,
  invalidAnnotation: "ignore" as "ignore" | "fail",
  undeclaredRequests: "fail" as "fail" | "cniArgs",
  ignoredRequests: "fail" as "fail" | "warn",
  checkDelegates: "defaultNetwork" as "defaultNetwork" | "all",
  missingDevice: "fail" as "fail" | "warn",
  markerResources: [
    "bridge.network.kubevirt.io/*",
    "ovs-cni.network.kubevirt.io/*",
    "networks.plexus.dev/*",
  ] as readonly string[],
};

/** Whether it is a key of Plexus's configuration that the runtime's conf may have. */
export function isNetworkKey(key: string): key is NetworkKey {
  return names.some((name) => name === key);
}

/** Whether these keys with values of JSON need no schema to be accepted as they are. */
export function areUsual(given: Readonly<Record<string, Json>>): boolean {
  const { clusterNetwork = "", delegates = [], ...others } = given;
  if (Object.keys(others).length > 0 || typeof clusterNetwork !== "string") return false;
  if (!Array.isArray(delegates) || (clusterNetwork !== "" && delegates.length > 0)) return false;
  return delegates.every((each) => isJsonObject(each) && infiniteNumbers(each).length === 0);
}

/** The paths of the numbers that JSON would print as null. */
export function infiniteNumbers(value: unknown): (string | number)[][] {
  if (typeof value === "number") return Number.isFinite(value) ? [] : [[]];
  if (typeof value !== "object" || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, each]) =>
    infiniteNumbers(each).map((path) => [isList ? Number(key) : key, ...path]),
  );
}
