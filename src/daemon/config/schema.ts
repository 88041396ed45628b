import * as z from "zod";
import { defaultEngineConfig } from "#engine/config.ts";
import {
  absolutePath,
  networkKeys,
  nonEmptyText,
  refuseExclusiveKeys,
} from "#engine/config-keys.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { defaultCallConfig } from "./call-config.ts";
import { parseListenAddress, parseMetricsAddress } from "./listen-address.ts";

const fileName = nonEmptyText.refine((file) => !file.includes("/"), {
  error: "must be a file name, without a directory",
});
const milliseconds = z.int().min(1, { error: "must be at least 1" });
const budget = milliseconds.max(210_000, { error: "must be below the kubelet's 4 minutes" });
const pause = z.int().min(0);
/** The shim gives up on an engine that sends no order for 30 s (shim/shim.h), and the ADD fails. */
const apiWaitMax: Parameters<z.ZodInt["max"]> = [
  20_000,
  { error: "must be at most 20000: the shim waits 30 s for plexusd" },
];
const gracePeriod = pause.max(86_400_000);

/** A qualified name: what the API server accepts as the key of a taint. */
const taintKey = z.string().regex(/^([a-z0-9][a-z0-9.-]{0,252}\/)?[A-Za-z0-9][\w.-]{0,62}$/, {
  error: "must be the key of a taint: plexus.dev/not-ready",
});

const directories = z.union([absolutePath, z.tuple([absolutePath], absolutePath)], {
  error: "must be an absolute path, or a list of them",
});

const listenAddress = z.string().refine((text) => text === "off" || parseListenAddress(text), {
  error: 'must be "off", or an IP address and a port: 127.0.0.1:19500, [::1]:19500',
});

const metricsAddress = z.string().refine((text) => text === "off" || parseMetricsAddress(text), {
  error: 'must be "off", or an address and a port: *:19501, 10.0.0.1:19501, [fd00::1]:19501',
});

const primarySchema = z.strictObject({
  conf: fileName.exactOptional().meta({
    description:
      "File name of the primary CNI's configuration. Default: the first usable file in byte order that does not belong to a meta-plugin.",
  }),
  dir: absolutePath.exactOptional().meta({
    description:
      "The directory where the primary CNI writes its configuration, if it is not `cniConfDir`. With a separate directory, the container runtime has no network until plexusd runs.",
    restart: true,
  }),
  settleMs: pause.default(3000).meta({
    description:
      "How long the directory must be unchanged before plexusd first chooses a primary CNI. On a new node, the first agent to write there may not be the right one.",
  }),
});

/**
 * The configuration file; every key is optional. Parsing applies plexusd's defaults. Keys of the
 * engine stay absent, because the runtime's configuration may have them: the engine applies their
 * defaults. A key with `restart` is read only at start.
 */
export const configSchema = z
  .strictObject({
    ...networkKeys,
    capabilities: z.record(z.string(), z.boolean()).default({}).meta({
      description:
        "Capabilities that the node's CNI configuration declares in addition to the primary CNI's. `false` omits one.",
    }),
    delegateTimeoutMs: budget.exactOptional().meta({
      description:
        "Timeout of one plugin. Plexus then kills it with its process group. All plugins of a STATUS or GC have ten seconds.",
      default: defaultEngineConfig.delegateTimeoutMs,
    }),
    delBudgetMs: budget.exactOptional().meta({
      description:
        "Timeout of all plugins of one DEL together. Each network gets an equal share of the remaining time, so that a plugin that hangs does not keep other networks attached.",
      default: defaultEngineConfig.delBudgetMs,
    }),
    missingPluginGraceMs: gracePeriod.exactOptional().meta({
      description:
        "Grace period for a plugin that is missing at DEL, for example during an upgrade. Until it ends, the DEL fails and the runtime retries, because the plugin may have rules or addresses to remove. It starts with the sandbox's first DEL that finds a plugin missing. After it, the attachment counts as detached if its interface is gone.",
      default: defaultEngineConfig.missingPluginGraceMs,
    }),
    failedAddGraceMs: gracePeriod.exactOptional().meta({
      description:
        "Grace period for an attachment that never succeeded and whose plugin also fails in DEL. It starts with the sandbox's first failed DEL. After it, Plexus forgets the attachment if its interface is gone. Plexus forgets it at once if the plugin rejects its configuration with the error of its ADD. It first runs the IPAM plugin, and records the event `AttachmentForgotten`.",
      default: defaultEngineConfig.failedAddGraceMs,
    }),
    apiTimeoutMs: milliseconds
      .max(...apiWaitMax)
      .default(defaultCallConfig.apiTimeoutMs)
      .meta({
        description:
          "Timeout of a read from the API, at most 20000. A request that is unanswered after half of it is repeated on another connection, and the first answer counts. After it, the call fails with code 11 (try again later).",
        restart: true,
      }),
    publishStatus: z.enum(["afterReply", "beforeReply"]).exactOptional().meta({
      description:
        "When plexusd writes `network-status`. `afterReply`: once the container runtime has the ADD's answer, so no pod waits for the API server. `beforeReply`, as in Multus: the ADD waits for the write, at most `statusWaitMs`. In both cases a failed write is retried and never fails the ADD. plexus-standalone always writes before it answers.",
      default: defaultEngineConfig.publishStatus,
    }),
    statusWaitMs: pause
      .max(...apiWaitMax)
      .default(defaultCallConfig.statusWaitMs)
      .meta({
        description:
          "How long an ADD with `publishStatus: beforeReply`, or one of plexus-standalone, waits until `network-status` is written, at most 20000. After that, the ADD succeeds, and the write is repeated in the background.",
        restart: true,
      }),
    hotPlug: z.enum(["off", "on"]).exactOptional().meta({
      description:
        "Whether an edit of a running pod's networks annotation plugs and unplugs networks: [hot-plug](hot-plug.md). Needs `plexus agent --attach` on the node. Releases without hot-plug cannot read the records that are written with `on`.",
      default: defaultEngineConfig.hotPlug,
    }),
    hotPlugNamespaces: z.array(nonEmptyText).readonly().exactOptional().meta({
      description:
        "The namespaces whose pods `hotPlug` changes. An empty list means all namespaces.",
      default: defaultEngineConfig.hotPlugNamespaces,
    }),
    heal: z
      .union([z.boolean(), z.literal("report")])
      .exactOptional()
      .meta({
        description:
          "What happens if an interface disappears from a running pod: nothing, an event and a metric (`report`), or that and a new attachment (`true`), for networks that the pod's annotation requests while `hotPlug` is `on`: [hot-plug](hot-plug.md). Needs `plexus agent --attach` on the node, which looks every minute.",
        default: defaultEngineConfig.heal,
      }),
    watchAddresses: z.boolean().exactOptional().meta({
      description:
        "Whether `network-status` shows the addresses that interfaces of running pods have now, for example by SLAAC or DHCP, instead of those of the ADD: [hot-plug](hot-plug.md#addresses-that-change). Needs `plexus agent --attach` on the node, which looks every minute.",
      default: defaultEngineConfig.watchAddresses,
    }),
    http: listenAddress.default("127.0.0.1:19500").meta({
      description: "Address and port of `/healthz`, `/readyz` and `/metrics`, or `off`.",
      restart: true,
    }),
    metricsAddress: metricsAddress.default("off").meta({
      description:
        "Address and port of `/metrics` over TLS, or `*:PORT` for every address of the node, or `off`. The API server must allow the caller's token to `get` the path `/metrics`. `deploy/components/metrics` sets it up: [metrics](../operations/metrics.md).",
      restart: true,
    }),
    logLevel: z
      .enum(["debug", "info", "warn", "error"])
      .default("info")
      .meta({ description: "Minimum severity of log messages." }),
    kubeletDir: absolutePath.default(defaultCallConfig.kubeletDir).meta({
      description:
        "The kubelet's directory. plexusd reads the devices of pods from `pod-resources/kubelet.sock`. Mount that directory at the same path in plexusd's container.",
      restart: true,
    }),
    cniConfDir: absolutePath.default(defaultPaths.cniConfDir).meta({
      description: `The container runtime's configuration directory, where plexusd writes \`${plexusConfName}\`. Mount it at the same path in plexusd's container.`,
      restart: true,
    }),
    cniBinDir: directories.default(defaultPaths.cniBinDir).meta({
      description:
        "The container runtime's plugin directory, or a list of directories. The shim is installed in the first one. The primary CNI's plugins must be in one of them; otherwise plexusd does not write the node's CNI configuration. Owner and mode do not matter, because the container runtime trusts these directories too.",
    }),
    startupTaint: taintKey.exactOptional().meta({
      description:
        "Key of a taint that plexusd removes from its Node when it serves the node, so that no pod starts earlier: [fresh nodes](../operations/fresh-nodes.md). Needs the permissions of `deploy/components/startup-taint`.",
    }),
    primary: primarySchema
      .prefault({})
      .meta({ description: "How the primary CNI's configuration is found." }),
  })
  .superRefine(refuseExclusiveKeys);

/** A valid configuration file. */
export type ConfigFile = z.output<typeof configSchema>;
