import * as z from "zod";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/** What the engine lets itself be told, by the daemon's configuration and by the runtime's conf. */
export interface EngineConfig {
  /** The default network: a definition's name, a CNI network's name, or a file's or directory's path. */
  readonly clusterNetwork?: string;
  /** Confs or conflists inline instead: the first is the default network, all are always attached. */
  readonly delegates: readonly JsonObject[];
  /** Networks for every pod outside {@link systemNamespaces}, by the rules of `clusterNetwork`. */
  readonly defaultNetworks: readonly string[];
  readonly systemNamespaces: readonly string[];
  /** Namespace of the definitions that the configuration names. */
  readonly plexusNamespace: string;
  readonly namespaceIsolation: boolean;
  readonly globalNamespaces: readonly string[];
  /** Where confs are looked up by their CNI name. */
  readonly confDir: string;
  /** Searched for plugins before CNI_PATH. */
  readonly binDir?: string;
  /** A file without which the default network is not ready. */
  readonly readinessindicatorfile?: string;
  readonly invalidAnnotation: "ignore" | "fail";
  readonly delegateTimeoutMs: number;
}

/** What holds where neither side says anything. */
export const defaultEngineConfig: EngineConfig = {
  delegates: [],
  defaultNetworks: [],
  systemNamespaces: ["kube-system"],
  plexusNamespace: "kube-system",
  namespaceIsolation: false,
  globalNamespaces: ["default"],
  confDir: "/etc/cni/plexus/net.d",
  invalidAnnotation: "ignore",
  delegateTimeoutMs: 60_000,
};

const namespaces = z.union([
  z.array(z.string()),
  z.string().transform((list) =>
    list
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== ""),
  ),
]);

const jsonObject = z.record(z.string(), z.custom<Json>()) as z.ZodType<JsonObject>;

/** The keys of a `"type":"plexus"` conf that are ours; Multus's names where the meaning is the same. */
const confSchema = z.object({
  clusterNetwork: z.string().min(1).exactOptional(),
  delegates: z.array(jsonObject).min(1).exactOptional(),
  defaultNetworks: z.array(z.string().min(1)).exactOptional(),
  systemNamespaces: z.array(z.string()).exactOptional(),
  plexusNamespace: z.string().min(1).exactOptional(),
  multusNamespace: z.string().min(1).exactOptional(),
  namespaceIsolation: z.boolean().exactOptional(),
  globalNamespaces: namespaces.exactOptional(),
  confDir: z.string().startsWith("/").exactOptional(),
  binDir: z.string().startsWith("/").exactOptional(),
  readinessindicatorfile: z.string().exactOptional(),
  invalidAnnotation: z.enum(["ignore", "fail"]).exactOptional(),
});

/**
 * The configuration for one call: the daemon's where it says something, else the conf that the
 * runtime handed over, else the default. `clusterNetwork` and `delegates` go together: a side that
 * says one of them has spoken for both.
 * @throws CniError 7 naming the key of the conf that cannot be used
 */
export function configForCall(daemon: Partial<EngineConfig>, conf: JsonObject): EngineConfig {
  const fromConf = parseConf(conf);
  if (daemon.clusterNetwork !== undefined || daemon.delegates !== undefined) {
    delete fromConf.clusterNetwork;
    delete fromConf.delegates;
  }
  return { ...defaultEngineConfig, ...fromConf, ...daemon };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function parseConf(conf: JsonObject): Mutable<Partial<EngineConfig>> {
  const parsed = confSchema.safeParse(conf);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((i) => `${i.path.join(".")}: ${i.message}`);
    throw new CniError(
      CniErrorCode.InvalidNetworkConfig,
      `the plexus network configuration is invalid: ${problems.join("; ")}`,
    );
  }
  const { multusNamespace, ...rest } = parsed.data;
  const namespace = rest.plexusNamespace ?? multusNamespace;
  return { ...rest, ...(namespace === undefined ? {} : { plexusNamespace: namespace }) };
}
