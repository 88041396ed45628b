import type { Cluster } from "#daemon/cluster.ts";
import type { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { readPlexusConf } from "#daemon/cni-conf/plexus-conf.ts";
import { lookUpPlugin } from "#daemon/cni-conf/plugin-lookup.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { unseenPaths } from "#daemon/config/host-paths.ts";
import type { PodState } from "#engine/check/not-attached.ts";
import { configForCall } from "#engine/config.ts";
import type { Engine } from "#engine/engine.ts";
import type { PodName } from "#engine/explain/explain-pod.ts";
import type { Explanation, PodStates } from "#engine/explain/explanation.ts";
import type { DeviceSource } from "#engine/plan/devices/device-ports.ts";
import type { ConfFiles, PluginLookup } from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import type { HostView } from "#host/host-view.ts";
import { buildInfo } from "#lib/build-info.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { RequestRules } from "#npwg/runtime-config.ts";
import type { ReportedDevices } from "./claimed-devices.ts";
import type { NodeReport } from "./node-status.ts";

/** What {@link Reports} are made from. */
export interface ReportsOptions {
  readonly engine: Engine;
  readonly records: RecordStore;
  readonly cluster: Cluster;
  /** Devices of resource claims; absent where pods have none. */
  readonly claims: DeviceSource | undefined;
  readonly config: EffectiveConfig;
  readonly confFiles: ConfFiles;
  readonly view: HostView;
  readonly nodeConf: NodeConf | undefined;
  readonly nodeName: string;
  readonly stateDir: string;
  readonly readiness: () => readonly string[];
  readonly unattachedPods: () => number;
}

/** What plexusd knows, for people. */
export class Reports {
  readonly #options: ReportsOptions;

  constructor(options: ReportsOptions) {
    this.#options = options;
  }

  /** Of plexusd and its node. @throws CniError when the records cannot be listed */
  async node(): Promise<NodeReport> {
    const { config, cluster, nodeConf, view, records, engine } = this.#options;
    const { cniConfDir, shimDir, binDirs } = config.current().nodeConf;
    const listed = await records.list();
    return omitUndefined({
      ...buildInfo(),
      node: this.#options.nodeName,
      uptimeSeconds: Math.round(process.uptime()),
      notReady: this.#options.readiness(),
      conf: nodeConf?.status(),
      sourceProblem: cluster.source.notReadyReason(),
      unseenPaths: unseenPaths(config.current(), view),
      dirs: { cniConfDir, shimDir, binDirs, stateDir: this.#options.stateDir },
      attachments: listed.records.reduce((sum, record) => sum + record.attachments.length, 0),
      leftovers: await engine.countLeftovers(),
      unattachedPods: this.#options.unattachedPods(),
      requests: { rules: await this.#requestRules(), refused: engine.refusedRequests() },
      damagedRecords: listed.damaged.map(({ reason }) => reason),
    });
  }

  /** Of a pod. @throws CniError when the records cannot be listed */
  async pod(name: PodName): Promise<Explanation> {
    const { engine, nodeConf, nodeName, config, confFiles } = this.#options;
    const status = nodeConf?.status();
    const { cniConfDir, binDirs } = config.current().nodeConf;
    return engine.explain(name, {
      pods: this.#podStates(),
      node: omitUndefined({
        name: nodeName,
        confState: status?.state,
        confReason: status?.reason,
      }),
      conf: await readPlexusConf(cniConfDir, confFiles),
      searchPath: binDirs,
      findPlugin: (type) => this.#findPlugin(type),
    });
  }

  /**
   * What the claims of a pod were allocated, read anew. plexusctl asks the kubelet itself: the library for that
   * would stay in this process.
   * @throws CniError as {@link DeviceSource.devicesOf} does
   */
  async claimedDevices(name: PodName): Promise<ReportedDevices> {
    const { claims, cluster } = this.#options;
    const pod = await cluster.source.getPod(name, {});
    if (claims === undefined || pod === undefined) return {};
    const { signal } = new AbortController();
    const podObject = () => cluster.source.getPodObject(pod, { signal });
    return Object.fromEntries(await claims.devicesOf({ pod, networks: [], podObject, signal }));
  }

  /** Without an API only what the source has is known of a pod: that it may be attached here. */
  #podStates(): PodStates {
    const { node, source } = this.#options.cluster;
    if (node !== undefined) return node.nodePods;
    return { find: async (name) => asState(await source.getPod(name, {}), this.#options.nodeName) };
  }

  /** As a call has them; a conf of the runtime that cannot be used decides nothing. */
  async #requestRules(): Promise<RequestRules> {
    const { config, confFiles } = this.#options;
    const { engine, nodeConf } = config.current();
    const { undeclaredRequests, ignoredRequests } = await readPlexusConf(
      nodeConf.cniConfDir,
      confFiles,
    )
      .then((conf) => configForCall(engine, conf))
      .catch(() => configForCall(engine, {}));
    return { undeclaredRequests, ignoredRequests };
  }

  /** What cannot be seen from the container is taken for installed: an ADD would say otherwise. */
  async #findPlugin(type: string): Promise<PluginLookup> {
    const { config, confFiles: files } = this.#options;
    const { binDirs } = config.current().nodeConf;
    const presence = await lookUpPlugin(type, { binDirs, files });
    return presence.kind === "missing" ? { outcome: "missing", message: "" } : { outcome: "found" };
  }
}

function asState(
  pod: Awaited<ReturnType<Cluster["source"]["getPod"]>>,
  node: string,
): PodState | undefined {
  if (pod === undefined) return undefined;
  const unknown = { hostNetwork: false, phase: "", isTerminating: false, podIps: [] };
  return { ...pod, ...unknown, node, networkStatus: undefined };
}
