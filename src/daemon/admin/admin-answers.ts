import { readdir } from "node:fs/promises";
import { type Cluster, lostDefinitions } from "#daemon/cluster.ts";
import type { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import { confCondition } from "#daemon/cni-conf/status.ts";
import type { EffectiveConfig } from "#daemon/config/effective-config.ts";
import { unseenPaths } from "#daemon/config/host-paths.ts";
import type { DaemonFlags } from "#daemon/flags.ts";
import type { Node } from "#daemon/node.ts";
import { nodeView, pluginSearch } from "#daemon/node-view.ts";
import type { HotPlugQueue } from "#daemon/pods/hot-plug.ts";
import type { Explanation, PodStates } from "#engine/explain/explanation.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import type { PodState } from "#engine/ports/cluster.ts";
import { type PodName, statusCondition } from "#engine/ports/cluster.ts";
import { hostLocalLeases } from "#host/host-local-leases.ts";
import type { HostView } from "#host/host-view.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import { buildInfo } from "#lib/build-info.ts";
import { worstFirst } from "#lib/condition.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { parseStateFileName } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { agentPlugins } from "./agent-plugins.ts";
import { auxiliaryProblems } from "./auxiliary-chain.ts";
import { isStillOpen, parseFailedAdd } from "./failed-add.ts";
import { type MultusLeftovers, multusLeftovers } from "./multus-leftovers.ts";
import { type NodeReport, nodeConditions } from "./node-conditions.ts";
import type { NodeStatus, PodProblem } from "./node-status.ts";
import { type Refreshed, refreshedAnswer } from "./refreshed.ts";

interface AdminAnswersOptions
  extends Pick<
    Node,
    "life" | "engine" | "calls" | "records" | "cluster" | "confFiles" | "readiness" | "duties"
  > {
  readonly config: EffectiveConfig;
  readonly view: HostView;
  readonly nodeConf: NodeConf | undefined;
  readonly nodeName: string;
  readonly flags: DaemonFlags;
  readonly callsInFlight: () => Promise<number>;
}

/** What plexusd knows of its node and the node's pods. */
export class AdminAnswers {
  readonly #options: AdminAnswersOptions;
  readonly readiness: AdminAnswersOptions["readiness"];

  constructor(options: AdminAnswersOptions) {
    this.#options = options;
    this.readiness = options.readiness;
  }

  /** The status of plexusd and its node. @throws CniError when the records cannot be listed */
  async node(): Promise<NodeStatus> {
    const { config, confFiles, cluster, nodeConf, view, records, engine, flags } = this.#options;
    const { nodeConf: spec, engine: engineConfig } = config.current();
    const { cniConfDir, shimDir, binDirs } = spec;
    const { source } = cluster;
    const runtimeConf = await this.#runtimeConf();
    const now = new Date().toISOString();
    const files = (await ifPresent(readdir(flags.stateDir))) ?? [];
    const listed = await records.list();
    const isOpen = isStillOpen(listed.records, cluster.node?.nodePods.list());
    const report: NodeReport = omitUndefined({
      ...buildInfo(),
      node: this.#options.nodeName,
      uptimeSeconds: Math.round(process.uptime()),
      state: this.#options.life.state,
      notReady: this.readiness(),
      conf: nodeConf?.status(),
      configProblem: config.problem(),
      configWarnings: config.warnings(),
      sourceProblem: await (source.lookUpProblem?.() ?? source.notReadyReason()),
      definitionsServed: cluster.node?.servesDefinitions(),
      lostDefinitions: [...lostDefinitions(cluster).keys()],
      unseenPaths: unseenPaths(config.current(), view),
      dirs: { cniConfDir, shimDir, binDirs, stateDir: flags.stateDir },
      attachments: listed.records.reduce((sum, record) => sum + record.attachments.length, 0),
      leftovers: await engine.countLeftovers(),
      podProblems: this.#podProblems(),
      callsInFlight: await this.#options.callsInFlight(),
      failedAdds: engine.history.failedAdds(now, isOpen),
      settings: config.settings(runtimeConf),
      auxiliaryProblems: await auxiliaryProblems(engineConfig, runtimeConf, confFiles),
      configFile: flags.config,
      damagedRecords: listed.damaged.map(({ error }) => error.message),
      setAside: files.filter((name) => parseStateFileName(name)?.kind === "damaged"),
      ofMultus: await this.#leftByMultus(),
      agent: await agentPlugins(this.#options.calls.findByAgent, pluginSearch(this.#options)),
    });
    return { ...report, conditions: nodeConditions(report) };
  }

  /** The worst that is found about each pod. */
  #podProblems(): PodProblem[] {
    const { engine, cluster } = this.#options;
    const statuses = Array.from(cluster.publisher.failures(), ([pod, failure]): PodProblem => {
      return { pod, ...statusCondition(failure) };
    });
    const found = engine.findings.all().map(({ pod, condition }): PodProblem => {
      return { pod: `${pod.namespace}/${pod.name}`, ...condition };
    });
    const ofPods = Map.groupBy(worstFirst([...found, ...statuses]), ({ pod }) => pod);
    return [...ofPods.values()].flatMap(([worst]) => worst ?? []);
  }

  /** Before the pods have been listed, none is known to be gone. */
  async #leftByMultus(): Promise<MultusLeftovers> {
    const { node, source } = this.#options.cluster;
    if (node === undefined || source.notReadyReason() !== undefined)
      return { gone: [], damaged: [] };
    const files = new HostMultusFiles(defaultPaths.cniStateDir);
    return multusLeftovers(files, () => node.nodePods.list());
  }

  /** What happened to a pod, and why. @throws CniError when the records cannot be listed */
  async pod(name: PodName): Promise<Explanation> {
    const { engine, nodeConf, nodeName, duties } = this.#options;
    const status = nodeConf?.status();
    return engine.explain(name, {
      pods: this.#podStates(),
      node: omitUndefined({ name: nodeName, conf: status && confCondition(status) }),
      ...(await nodeView(this.#options)),
      lastAttempt: duties?.hotPlug.lastAttempt(name),
      leases: (network) => hostLocalLeases(defaultPaths.cniStateDir, network),
    });
  }

  /**
   * The manifests of the definitions that were deleted with their CRD; perhaps gives these up.
   * @throws Error when a file cannot be removed, or the API does not answer
   */
  async lostDefinitions({ discards = false } = {}): Promise<JsonObject[]> {
    const { cluster } = this.#options;
    await cluster.node?.keptDefinitions?.settle();
    const lost = [...lostDefinitions(cluster).values()];
    if (discards) await cluster.node?.keptDefinitions?.discardLost();
    return lost;
  }

  /** Which definitions can be used on the node. @throws Error while that is not known */
  async networks(): Promise<readonly NetworkOnNode[]> {
    const problem = this.#options.cluster.source.notReadyReason();
    if (problem !== undefined) throw new Error(problem);
    return this.#options.engine.networks(await nodeView(this.#options));
  }

  /** @throws Error as {@link HotPlugQueue.refresh} */
  async refresh(pod: PodName, ifName: string): Promise<Refreshed> {
    const { duties } = this.#options;
    if (duties === undefined) throw new Error("this plexusd does not change running pods");
    return refreshedAnswer(await duties.hotPlug.refresh(pod, ifName));
  }

  /** Without an API the source knows only that a pod may be attached here. */
  #podStates(): PodStates {
    const { node, source } = this.#options.cluster;
    if (node !== undefined) return node.nodePods;
    return { find: async (name) => asState(await source.getPod(name, {}), this.#options.nodeName) };
  }

  /** Notes what plexus-standalone reports of a pod. @throws Error for a body that it cannot read */
  noteFailedAdd(pod: PodName, body: string): void {
    const { uid, ...failure } = parseFailedAdd(body);
    this.#options.engine.noteFailedAdd(omitUndefined({ ...pod, uid }), failure);
  }

  /** A runtime configuration that cannot be read says nothing. */
  async #runtimeConf(): Promise<JsonObject> {
    const { config, confFiles } = this.#options;
    const conf = readPlexusConf(config.current().nodeConf.cniConfDir, confFiles);
    return conf.catch(() => ({}));
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
