import { parseNetConfList } from "#cni/conf/conf.ts";
import { type Cluster, openApiCluster } from "#daemon/cluster.ts";
import { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import { plexusConf, textOf } from "#daemon/cni-conf/plexus-conf.ts";
import { defaultConfig } from "#daemon/config/config.ts";
import { housekeepingTasks } from "#daemon/housekeeping-tasks.ts";
import { type Calls, type Node, noCalls, openNode, startNode } from "#daemon/node.ts";
import type { Engine } from "#engine/engine.ts";
import type { Advice } from "#engine/explain/explanation.ts";
import { brokenAssertion } from "#engine/ports/assertions.ts";
import { readCall } from "#engine/ports/call.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import type { DeviceSource } from "#engine/ports/devices.ts";
import { emptyPorts } from "#engine/ports/empty-ports.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { type Logger, noLogger } from "#engine/ports/logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import { ApiStatusPublisher } from "#kube/status-publisher.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { agentOf, serveAgent } from "#serving/agent.ts";
import { AgentSessions } from "#serving/agent-sessions.ts";
import { Life } from "#serving/life.ts";
import { serveOneCall } from "#standalone/serve.ts";
import type { Scenario } from "../history/scenario.ts";
import type { Disk } from "../world/disk.ts";
import { Process } from "../world/schedule.ts";
import { type EngineProcess, type EngineSession, world } from "../world/world.ts";
import { listFiles } from "./mesh-agent.ts";
import {
  clusterRanges,
  conflist,
  type NetworkName,
  networks,
  permittedPlugins,
  resources,
  runtimeConf,
} from "./networks.ts";

const { stateDir } = defaultPaths;
/** The stand-in for the API's client reads none. */
const kubeconfig = "/etc/kubernetes/kubeconfig";
const nodeName = "node-1";
/** `terminationGracePeriodSeconds` of deploy/base/daemonset.yaml. */
const gracePeriodUs = 30e6;

const { apiTimeoutMs } = defaultConfig;
const { cniConfDir } = defaultConfig.nodeConf;

const confFiles = new HostConfFiles();

/**
 * Puts Plexus's file there. Without an agent that changes it, plexusd leaves it alone in most
 * histories; otherwise the default network is that of another file, as on real nodes.
 */
export function installConf(disk: Disk, scenario: Scenario): void {
  const { defaultNetwork, others } = scenario;
  const { name, ...plugin } = runtimeConf(scenario);
  const list = { cniVersion: scenario.cniVersion, name, plugins: [plugin] };
  const hasPrimary = others.mesh !== undefined;
  const text = hasPrimary ? withPrimary(defaultNetwork) : JSON.stringify(list);
  disk.install(`${cniConfDir}/${plexusConfName}`, text);
  if (!hasPrimary) return;
  const primary = conflist(defaultNetwork);
  const mesh = others.mesh?.wasFirst ? [`${others.mesh.mesh}-cni`] : [];
  const plugins = [...primary.plugins, ...mesh.map((type) => ({ type, name: type }))];
  disk.install(`${cniConfDir}/${primaryName}`, JSON.stringify({ ...primary, plugins }));
  for (const type of ["plexus", ...networks[defaultNetwork], ...mesh])
    disk.install(`${defaultPaths.cniBinDir}/${type}`, "", 0o755);
}

const primaryName = "10-primary.conflist";

/** Puts there what plexusd writes once the primary CNI has been upgraded. */
export function upgradeConf(disk: Disk, scenario: Scenario): void {
  const { name, ...plugin } = runtimeConf({ ...scenario, isUpgraded: true });
  const list = { cniVersion: scenario.cniVersion, name, plugins: [plugin] };
  disk.install(`${cniConfDir}/${plexusConfName}`, JSON.stringify(list));
}

/** The primary CNI writes its file again if a full disk or a power loss has emptied it. */
export function restorePrimary(disk: Disk, { defaultNetwork }: Scenario): void {
  if (listFiles().some(({ path }) => path.endsWith(primaryName))) return;
  disk.install(`${cniConfDir}/${primaryName}`, JSON.stringify(conflist(defaultNetwork)));
}

function withPrimary(defaultNetwork: NetworkName): string {
  const list = parseNetConfList(conflist(defaultNetwork), { source: primaryName });
  const primary = { kind: "usable", file: primaryName, list, omitted: [] } as const;
  return textOf({
    own: plexusConf({ ...defaultConfig.nodeConf, primary, omitted: [] }),
    chained: [],
  });
}

/** Tasks that need sockets, credentials or devices, which the simulation has not. */
const leftOut =
  /^(the sockets|the configuration and credentials|the kept definitions|the sweep of device|the search for definitions|the removal of the start-up)/;

/** Of all that a history runs of Plexus. */
export const logger: Logger = {
  ...noLogger,
  warn: (fields, message) => {
    world().note(() => `log: ${message} ${shown(fields)}`);
  },
  error: (fields, message) => {
    world().note(() => `log: ${message} ${shown(fields)}`);
    if (message.startsWith(brokenAssertion)) world().observer.assertionBroken(message);
  },
  child: () => logger,
};

function shown(fields: object): string {
  const { err, ...others } = fields as { err?: unknown };
  const text = err instanceof Error ? ` ${err.message}` : "";
  return JSON.stringify(others) + text;
}

/** The kubelet's answer for each pod. */
const deviceSources: readonly DeviceSource[] = [
  {
    async devicesOf({ pod }) {
      const ids = world().devices.get(pod.uid) ?? [];
      const allocated = ids.map((id) => ({ id, source: "the kubelet" }));
      return new Map([[resources.vf ?? "", allocated]]);
    },
  },
];

type PlexusdScenario = EngineScenario & Pick<Scenario, "others">;

type EngineScenario = Pick<Scenario, "publishStatus" | "hotPlug" | "keepsCluster">;

function engineConfig({ publishStatus, hotPlug, keepsCluster }: EngineScenario) {
  const clusterRoutes = Object.values(clusterRanges);
  const attachmentPolicy = permittedPlugins;
  return { publishStatus, hotPlug, attachmentPolicy, ...(keepsCluster && { clusterRoutes }) };
}

/** The node's CNI configuration, where no agent changes it. */
const leftAlone = {
  start: async () => undefined,
  stop: async () => undefined,
  notReadyReason: () => undefined,
};

/** plexusd without its sockets: {@link openNode}. */
export class Plexusd {
  readonly process = new Process("plexusd");
  readonly #scenario: PlexusdScenario;
  readonly #life = new Life(logger);
  readonly #agents = new AgentSessions();
  readonly #sessions = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #cluster: Cluster | undefined;
  #node: Node | undefined;
  #configChanged = (): void => undefined;
  #isSignalled = false;

  /** Begins its start, which takes a while. `onEnd` is called when it has ended in any way. */
  constructor(scenario: PlexusdScenario, onEnd: () => void) {
    this.#scenario = scenario;
    const { schedule, random } = world();
    world().note(() => "plexusd starts");
    this.process.onEnd(() => {
      world().note(() => "plexusd ends");
      listen(this, undefined);
      onEnd();
    });
    const loadingUs = random.duration(50_000, 500_000);
    schedule.at(loadingUs, () => void this.#life.run(() => this.#open()), this.process);
  }

  /** Begins its stop by SIGTERM, as {@link Life.stop}. The kubelet kills it after its grace period. */
  stop(): void {
    const { schedule } = world();
    schedule.at(gracePeriodUs, () => schedule.kill(this.process), schedule.outside);
    this.#isSignalled = true;
    const stop = async (): Promise<void> => {
      world().note(() => "plexusd stops");
      await this.#life.stop();
      schedule.kill(this.process);
    };
    schedule.at(1, () => void stop(), this.process);
  }

  /** Whether it accepts calls, and continues to. */
  get isServing(): boolean {
    return world().daemon?.process === this.process && !this.#isSignalled;
  }

  /** Has it run its regular tasks, as it does when its configuration has changed. */
  runHousekeeping(): void {
    world().schedule.at(1, () => this.#configChanged(), this.process);
  }

  /** How many writes of statuses wait. */
  get pendingStatuses(): number {
    const publisher = this.#cluster?.publisher;
    return publisher instanceof ApiStatusPublisher ? publisher.pending : 0;
  }

  /** The UIDs of the pods that it has seen by its watch. */
  get seenPods(): string[] {
    return (this.#cluster?.node?.nodePods.list() ?? []).map(({ uid }) => uid);
  }

  /** What `plexusctl explain` says of a pod; undefined before plexusd serves. */
  async explain(pod: PodName): Promise<Advice | undefined> {
    const { engine, cluster, duties } = this.#node ?? {};
    const pods = cluster?.node?.nodePods;
    if (engine === undefined || pods === undefined) return undefined;
    const { advice } = await engine.explain(pod, {
      pods,
      node: { name: nodeName },
      conf: await readPlexusConf(cniConfDir, confFiles),
      lastAttempt: duties?.hotPlug.lastAttempt(pod),
      searchPath: defaultConfig.nodeConf.binDirs,
      findPlugin: async () => ({ outcome: "found" }),
    });
    return advice;
  }

  async #open(): Promise<void> {
    const { others } = this.#scenario;
    const life = this.#life;
    const records = await life.start({
      name: "records",
      start: () => FileRecordStore.open(stateDir),
      stop: (store) => store.flush(),
    });
    const cluster = await life.start({
      name: "cluster",
      start: () => openApiCluster({ kubeconfig, nodeName, apiTimeoutMs, logger }),
      stop: (opened) => opened.close(),
    });
    this.#cluster = cluster;
    const current = { ...defaultConfig, engine: engineConfig(this.#scenario) };
    const config = {
      current: () => current,
      onChange: (listener: () => void) => {
        this.#configChanged = listener;
      },
    };
    const spec = () => current.nodeConf;
    const node = await openNode({
      ...{ life, config, cluster, records, confFiles, deviceSources, logger },
      metrics: emptyPorts.metrics,
      hotPlugMetrics: { operationEnded: () => undefined, statusWritten: () => undefined },
      nodeConf:
        others.mesh === undefined
          ? leftAlone
          : new NodeConf({ spec, stateDir, files: confFiles, logger }),
      openCalls: (engine) => this.#openCalls(engine),
    });
    this.#node = node;
    const tasks = housekeepingTasks({
      ...{ ...node, records, sockets: [] },
      standaloneFiles: { refresh: async () => undefined },
    }).filter(({ name }) => !leftOut.test(name));
    await startNode(node, tasks);
  }

  #openCalls(engine: Engine): Calls {
    // The real start needs several turns of the event loop from here, in which it heeds the signal.
    if (this.#isSignalled) {
      world().schedule.kill(this.process);
      return noCalls;
    }
    listen(this, {
      process: this.process,
      accept: (session) => {
        const served = this.#serve(engine, session).finally(() => this.#sessions.delete(served));
        this.#sessions.add(served);
      },
    });
    return { ...noCalls, sandboxHosts: this.#agents, drain: (limit) => this.#drain(limit) };
  }

  /** As `CallServer` does. */
  async #serve(engine: Engine, session: EngineSession): Promise<void> {
    try {
      const call = readCall(session.request);
      const stopping = this.#stopping.signal;
      const agent = agentOf(call);
      if (agent === "attach") {
        return await this.#agents.serve(engine, call, { session, stopping });
      }
      if (agent !== undefined) {
        return await serveAgent(engine, call, { host: session, stopping });
      }
      const { answer, log, afterAnswer } = await engine.handle(call, session);
      await session.done(answer).finally(() => {
        log();
        afterAnswer();
      });
    } catch (error) {
      if (!(error instanceof HostGoneError)) throw error;
    }
  }

  /** As `CallServer` does. */
  async #drain(limit?: AbortSignal): Promise<void> {
    this.#stopping.abort();
    const ended = async (): Promise<void> => {
      while (this.#sessions.size > 0) await Promise.all(this.#sessions);
    };
    await untilAborted(ended(), limit).catch(() => undefined);
    listen(this, undefined);
  }
}

/** Opens or closes the socket of a plexusd, unless another one has it. */
function listen({ process }: Plexusd, engine: EngineProcess | undefined): void {
  const present = world();
  if (engine === undefined && present.daemon?.process !== process) return;
  present.daemon = engine;
  for (const tell of present.onDaemonChange) tell();
}

/** As `lingerMs` of src/standalone/main.ts. */
const lingerUs = 10e6;

/** plexus-standalone, which the shim starts for its call, with the configuration of plexusd. */
export function startStandalone({
  lingers,
  ...scenario
}: EngineScenario & Pick<Scenario, "lingers">): EngineProcess {
  const process = new Process("plexus-standalone");
  let records: FileRecordStore | undefined;
  const openRecords = async (): Promise<FileRecordStore> => {
    records ??= await FileRecordStore.open(stateDir);
    return records;
  };
  const serve = (session: EngineSession): Promise<void> =>
    serveOneCall({
      session: {
        request: async () => session.request,
        exec: (call) => session.exec(call),
        find: (path, types) => session.find(path, types),
        netlink: (netns, messages) => session.netlink(netns, messages),
        occupants: (netns) => session.occupants(netns),
        done: (answer) => session.done(answer),
        sendAlive: () => undefined,
        gone: session.gone,
      },
      stateDir,
      openRecords,
      ...{
        config: engineConfig(scenario),
        log: { logger, take: () => "" },
        clock: bootClockMs,
      },
      now: () => new Date().toISOString(),
      openCluster: async () => {
        const client = new ApiClient(await kubeconfigCredentials(kubeconfig));
        const kube = openKubeOnce({ client, nodeName, apiTimeoutMs, logger });
        return { ...kube, deviceSources, close: () => kube.close(2000) };
      },
    });
  const { standalones, schedule } = world();
  let [running, accepted] = [0, 0];
  /** As `FurtherCalls` of src/standalone/further-calls.ts. */
  const endIfUnused = (last: number): void => {
    if (running > 0 || last !== accepted) return;
    for (const [runtime, { process: shared }] of standalones)
      if (shared === process) standalones.delete(runtime);
    schedule.kill(process);
  };
  const accept = (session: EngineSession): void => {
    running += 1;
    accepted += 1;
    const served = serve(session).catch(() => session.hangUp());
    void served.finally(() => {
      running -= 1;
      const last = accepted;
      schedule.at(lingers ? lingerUs : 1, () => endIfUnused(last), process);
    });
  };
  return { process, accept };
}
