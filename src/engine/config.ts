import type * as z from "zod";
import { CniError } from "#cni/error.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type Json, type JsonObject, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseWith } from "#lib/parsing/parse-with.ts";
import { engineKeys, networkKeys, withoutFormerKeys } from "./config-keys.ts";
import { areAccepted, defaultsOf, type KeyValues, schemaOf } from "./config-table.ts";

type Values = KeyValues<typeof engineKeys>;

const defaults = defaultsOf(engineKeys);

/** The configuration of one call: {@link engineKeys}. */
export type EngineConfig = Values &
  Required<Pick<Values, keyof typeof defaults>> & {
    /** Plugins that the default network leaves out, because the runtime runs them. */
    readonly omittedPlugins?: readonly OmittedPlugin[];
  };

/** Type and name of a plugin, or all of its content if it has no name. */
export type OmittedPlugin = JsonObject & { readonly type: string };

export const defaultEngineConfig: EngineConfig = defaults;

/** In Plexus's plugin of the list that plexusd writes for the node. */
export const plexusdsListMark = { writtenBy: "plexusd" } as const;

/** Whether plexusd wrote the list, by Plexus's plugin in it. */
export function isPlexusdsList({ writtenBy }: JsonObject): boolean {
  return writtenBy === plexusdsListMark.writtenBy;
}

/**
 * The configuration for one call: plexusd's, else the runtime's conf, else the default. A side that
 * gives `clusterNetwork` or `delegates` decides about both. Another list than plexusd's, such as
 * nerdctl's, keeps the default network that it names, and is not concerned by the cluster's.
 * @throws CniError 7 naming the key of the conf that cannot be used
 */
export function configForCall(daemon: Partial<EngineConfig>, conf: JsonObject): EngineConfig {
  const fromConf = parseConf(conf);
  const keepsItsOwn = namesDefaultNetwork(fromConf) && !isPlexusdsList(conf);
  const byDaemon = keepsItsOwn ? without(daemon, [...pair, ...companions]) : daemon;
  const byConf = namesDefaultNetwork(byDaemon) ? without(fromConf, pair) : fromConf;
  return {
    ...defaultEngineConfig,
    ...byConf,
    // Only plexusd writes this key (src/daemon/cni-conf/chained.ts).
    ...(Object.hasOwn(conf, "omittedPlugins") && {
      omittedPlugins: namedPlugins(conf.omittedPlugins),
    }),
    ...byDaemon,
  };
}

type Key = keyof EngineConfig;

/** One of them names the default network. */
const pair: readonly Key[] = ["clusterNetwork", "delegates"];

/** They say more about the network that a side names. */
const companions: readonly Key[] = ["auxiliaryCNIChainName", "readinessindicatorfile"];

/** Whether a side names the default network. */
export function namesDefaultNetwork(side: Partial<EngineConfig>): boolean {
  return pair.some((key) => side[key] !== undefined);
}

function without(side: Partial<EngineConfig>, keys: readonly Key[]): Partial<EngineConfig> {
  return Object.fromEntries(Object.entries(side).filter(([key]) => !keys.includes(key as Key)));
}

/** What names plugins in a configuration of plexusd's; empty if nothing does. */
export function namedPlugins(plugins: Json | undefined): OmittedPlugin[] {
  return objectsOf(plugins).filter((each): each is OmittedPlugin => typeof each.type === "string");
}

/** The engine's view of the keys that one side gives; other keys of `values` are left out. */
export function engineConfigFromKeys(values: Values): Partial<EngineConfig> {
  const own = Object.entries(values).filter(([key]) => Object.hasOwn(engineKeys, key));
  const { delegates, ...keys }: Values = Object.fromEntries(own);
  return omitUndefined({ delegates: delegates?.length === 0 ? undefined : delegates, ...keys });
}

/** Made when it is first needed. */
let confSchema: z.ZodType<KeyValues<typeof networkKeys>> | undefined;

/**
 * Other keys of the conf are CNI's own, or Multus's without a meaning here. In Go, and so in Multus,
 * null and "" are the same as an absent key.
 */
function parseConf(conf: JsonObject): Partial<EngineConfig> {
  const given: JsonObject = Object.fromEntries(
    Object.entries(withoutFormerKeys(conf)).filter(
      ([key, value]) => Object.hasOwn(networkKeys, key) && value !== null && value !== "",
    ),
  );
  if (areAccepted(networkKeys, given)) return engineConfigFromKeys(given as Values);
  confSchema ??= schemaOf(networkKeys);
  try {
    const subject = "the plexus network configuration is invalid";
    return engineConfigFromKeys(parseWith(confSchema, given, subject));
  } catch (error) {
    throw new CniError("InvalidNetworkConfig", errorMessage(error));
  }
}
