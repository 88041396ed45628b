import * as z from "zod";
import { defaultEngineConfig } from "#engine/config.ts";
import {
  absolutePath,
  networkKeys,
  nonEmptyText,
  refuseExclusiveKeys,
} from "#engine/config-keys.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { isListenAddress, parseMetricsAddress } from "./listen-address.ts";

const fileName = nonEmptyText.refine((file) => !file.includes("/"), {
  error: "must be a file name, without a directory",
});
const milliseconds = z.int().min(1, { error: "must be at least 1" });

/** A qualified name, as the API server takes for keys of taints. */
const taintKey = z.string().regex(/^([a-z0-9][a-z0-9.-]{0,252}\/)?[A-Za-z0-9][\w.-]{0,62}$/, {
  error: "must be the key of a taint: plexus.dev/not-ready",
});

/** One directory, or a list of them. */
const directories = z.union([absolutePath, z.tuple([absolutePath], absolutePath)], {
  error: "must be an absolute path, or a list of them",
});

const listenAddress = z.string().refine((text) => text === "off" || isListenAddress(text), {
  error: 'must be "off", or an IP address and a port: 127.0.0.1:19500, [::1]:19500',
});

const metricsAddress = z
  .string()
  .refine((text) => text === "off" || parseMetricsAddress(text) !== undefined, {
    error: 'must be "off", or an address and a port: *:19501, 10.0.0.1:19501, [fd00::1]:19501',
  });

const primarySchema = z.strictObject({
  conf: fileName
    .meta({
      description:
        "File name of the primary CNI's configuration. Absent: the first usable file, in byte order, that is not a meta-plugin's.",
    })
    .exactOptional(),
  dir: absolutePath
    .meta({
      description:
        "Where the primary CNI writes its configuration, when that is not `cniConfDir`. With a directory of its own the container runtime sees no network before Plexus is there.",
      restart: true,
    })
    .exactOptional(),
  settleMs: z.int().min(0).default(3000).meta({
    description:
      "How long the directory must have been unchanged before a primary is chosen for the first time, so that the first agent to start is not taken for the right one.",
  }),
});

/**
 * The configuration file; every key is optional. Parsing fills in the defaults of the daemon's own
 * keys. What the engine reads stays absent, as the runtime's conf may have it: the engine applies
 * those defaults. `restart` in a key's documentation: it is read at start only.
 */
export const configSchema = z
  .strictObject({
    ...networkKeys,
    capabilities: z.record(z.string(), z.boolean()).default({}).meta({
      description:
        "Capabilities for the node's configuration beside those of the primary CNI; `false` leaves one out.",
    }),
    delegateTimeoutMs: milliseconds
      .max(210_000, { error: "must be below the kubelet's 4 minutes" })
      .meta({
        description: "A delegate that takes longer is killed with its process group.",
        default: defaultEngineConfig.delegateTimeoutMs,
      })
      .exactOptional(),
    delBudgetMs: milliseconds
      .max(210_000, { error: "must be below the kubelet's 4 minutes" })
      .meta({
        description:
          "How long the delegates of one DEL may take together. Each network that is still attached gets an equal share of what is left, so that one that hangs does not keep the others attached.",
        default: defaultEngineConfig.delBudgetMs,
      })
      .exactOptional(),
    missingPluginGraceMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .meta({
        description:
          "A plugin that is missing at a DEL may come back, as during an upgrade, and may have rules or addresses on the host to remove: the DEL fails and is repeated. So long after the first DEL of the sandbox that failed, the plugin counts as lost, and the attachment as detached when its interface is gone.",
        default: defaultEngineConfig.missingPluginGraceMs,
      })
      .exactOptional(),
    failedAddGraceMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .meta({
        description:
          "A plugin that ended its ADD with an error may fail in DEL, too. An attachment that never succeeded and whose interface is gone is forgotten this long after the first DEL of its sandbox that failed, and at once when the plugin refuses its configuration with the error of its ADD. Its IPAM plugin is executed first, and the pod gets the event `AttachmentForgotten`.",
        default: defaultEngineConfig.failedAddGraceMs,
      })
      .exactOptional(),
    apiTimeoutMs: milliseconds.default(5000).meta({
      description:
        "How long a live read of the API may take; after that the runtime gets code 11 (try again later).",
      restart: true,
    }),
    statusWaitMs: z.int().min(0).default(2000).meta({
      description:
        "How long an attached pod waits for its network-status annotation; after that it is written behind the call.",
      restart: true,
    }),
    http: listenAddress.default("127.0.0.1:19500").meta({
      description: "Where /healthz, /readyz and /metrics are served: address and port, or `off`.",
      restart: true,
    }),
    metricsAddress: metricsAddress.default("off").meta({
      description:
        "Where /metrics is served over TLS, to callers whose bearer token may `get` the path `/metrics` (asked of the API server): `*:PORT` for every address of the node, address and port, or `off`. `deploy/components/metrics` sets it up (docs/operations/metrics.md).",
      restart: true,
    }),
    logLevel: z
      .enum(["debug", "info", "warn", "error"])
      .default("info")
      .meta({ description: "The least severe level that is logged." }),
    kubeletDir: absolutePath.default(defaultPaths.kubeletDir).meta({
      description:
        "The kubelet's directory, whose `pod-resources/kubelet.sock` says which devices a pod was allocated. The same path on the host and in the container, which mounts that directory.",
      restart: true,
    }),
    cniConfDir: absolutePath.default(defaultPaths.cniConfDir).meta({
      description: `The container runtime's configuration directory, in which \`${plexusConfName}\` is written. The same path on the host and in the container.`,
      restart: true,
    }),
    cniBinDir: directories.default(defaultPaths.cniBinDir).meta({
      description:
        "The container runtime's plugin directory, or a list of them: the shim is installed in the first, and the primary CNI's plugins must be in one of them, or the node's configuration is not written. Their owner and mode do not matter: the container runtime's choice is trusted.",
    }),
    startupTaint: taintKey
      .meta({
        description:
          "Key of a taint that this node's Node loses once pods are attached through Plexus, so that none starts before: docs/operations/fresh-nodes.md. plexusd may do that only with the permissions of `deploy/components/startup-taint`.",
      })
      .exactOptional(),
    primary: primarySchema
      .prefault({})
      .meta({ description: "How the primary CNI's configuration is found." }),
  })
  .superRefine(refuseExclusiveKeys);

/** The file's content once it is known to be right. */
export type ConfigFile = z.output<typeof configSchema>;
