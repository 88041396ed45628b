import * as z from "zod";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type NetworkKeyValues, networkKeys, refuseExclusiveKeys } from "./config-keys.ts";
import { areUsual, isNetworkKey, networkKeyDefaults } from "./network-keys.ts";

/** The configuration of one call: {@link networkKeys}, and what only plexusd's file can say. */
export type EngineConfig = Readonly<typeof networkKeyDefaults> &
  Omit<NetworkKeyValues, keyof typeof networkKeyDefaults | "multusNamespace"> & {
    readonly delegateTimeoutMs: number;
    /** What a DEL may take for all its delegates together; each network gets a fair share. */
    readonly delBudgetMs: number;
    /** For how long DELs fail before a plugin that is missing counts as lost. */
    readonly missingPluginGraceMs: number;
    /**
     * How long DELs fail before an attachment without interface, whose ADD failed, is forgotten.
     */
    readonly failedAddGraceMs: number;
    /** Whether an ADD is answered before or after its network-status is published. */
    readonly publishStatus: "beforeReply" | "afterReply";
    /** Whether edits of a running pod's annotation change its networks. */
    readonly hotPlug: "off" | "on";
    /** The namespaces whose pods may be changed so; empty = all. */
    readonly hotPlugNamespaces: readonly string[];
    /** What happens if an interface disappears from a running pod: nothing, an event, or that and a new ADD. */
    readonly heal: boolean | "report";
    /** Types of plugins that the default network leaves out, because the runtime runs them. */
    readonly omittedPlugins?: readonly string[];
    /** Whether the status shows the addresses that interfaces of running pods have got since the ADD. */
    readonly watchAddresses: boolean;
  };

export const defaultEngineConfig: EngineConfig = {
  ...networkKeyDefaults,
  delegateTimeoutMs: 60_000,
  delBudgetMs: 100_000,
  missingPluginGraceMs: 300_000,
  failedAddGraceMs: 300_000,
  publishStatus: "afterReply",
  hotPlug: "off",
  hotPlugNamespaces: [],
  heal: false,
  watchAddresses: false,
};

/**
 * The configuration for one call: plexusd's, else the runtime's conf, else the default. A side that
 * gives `clusterNetwork` or `delegates` decides about both.
 * @throws CniError 7 naming the key of the conf that cannot be used
 */
export function configForCall(daemon: Partial<EngineConfig>, conf: JsonObject): EngineConfig {
  const { clusterNetwork, delegates, ...fromConf } = parseConf(conf);
  const daemonDecides = daemon.clusterNetwork !== undefined || daemon.delegates !== undefined;
  return {
    ...defaultEngineConfig,
    ...fromConf,
    ...(daemonDecides ? {} : omitUndefined({ clusterNetwork, delegates })),
    ...(Object.hasOwn(conf, "omittedPlugins") && { omittedPlugins: omittedPluginsOf(conf) }),
    ...daemon,
  };
}

/** Only plexusd writes this key (src/daemon/cni-conf/chained.ts). */
export function omittedPluginsOf({ omittedPlugins: types }: JsonObject): string[] {
  return Array.isArray(types) ? types.filter((type) => typeof type === "string") : [];
}

/** The engine's view of the keys that one side gives; other keys of `values` are left out. */
export function engineConfigFromKeys(values: NetworkKeyValues): Partial<EngineConfig> {
  const own = Object.entries(values).filter(([key]) => isNetworkKey(key));
  const { multusNamespace, globalNamespaces, delegates, ...keys } = Object.fromEntries(
    own,
  ) as NetworkKeyValues;
  return omitUndefined({
    plexusNamespace: multusNamespace,
    delegates: delegates?.length === 0 ? undefined : delegates,
    globalNamespaces:
      typeof globalNamespaces === "string" ? splitAtCommas(globalNamespaces) : globalNamespaces,
    ...keys,
  });
}

/** The keys that were read last: calls mostly have the same conf, and reading it takes a while. */
let lastRead: { readonly text: string; readonly keys: Partial<EngineConfig> } | undefined;

/** Made when it is first needed. */
let confSchema: z.ZodType<NetworkKeyValues> | undefined;

/**
 * Other keys of the conf are CNI's own, or Multus's without a meaning here. In Go, and so in Multus,
 * null and "" are the same as an absent key.
 */
function parseConf(conf: JsonObject): Partial<EngineConfig> {
  const isGiven = ([key, value]: [string, Json]): boolean =>
    isNetworkKey(key) && value !== null && value !== "";
  const given = Object.fromEntries(Object.entries(conf).filter(isGiven));
  const text = JSON.stringify(given);
  if (lastRead?.text !== text) lastRead = { text, keys: readKeys(given) };
  return lastRead.keys;
}

function readKeys(given: JsonObject): Partial<EngineConfig> {
  if (areUsual(given)) return engineConfigFromKeys(given as NetworkKeyValues);
  confSchema ??= z.object(networkKeys).superRefine(refuseExclusiveKeys);
  const parsed = confSchema.safeParse(given);
  if (parsed.success) return engineConfigFromKeys(parsed.data);
  const problems = parsed.error.issues.map((i) => `${i.path.join(".")}: ${i.message}`);
  throw new CniError(
    CniErrorCode.InvalidNetworkConfig,
    `the plexus network configuration is invalid: ${problems.join("; ")}`,
  );
}

function splitAtCommas(list: string): readonly string[] {
  return list
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}
