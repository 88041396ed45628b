import { parseNetConfList } from "#cni/conf/conf.ts";
import { NodeConf } from "#daemon/cni-conf/cni-conf.ts";
import { readPlexusConf } from "#daemon/cni-conf/conf-dir.ts";
import { plexusConf, textOf } from "#daemon/cni-conf/plexus-conf.ts";
import { defaultConfig } from "#daemon/config/config.ts";
import { housekeepingTasks } from "#daemon/housekeeping-tasks.ts";
import { type NodeDuties, nodeDuties } from "#daemon/pods/duties.ts";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { readCall } from "#engine/call/call.ts";
import type { EngineConfig } from "#engine/config.ts";
import { emptyPorts, noLogger } from "#engine/empty-ports.ts";
import { Engine } from "#engine/engine.ts";
import type { DeviceSource } from "#engine/plan/devices/device-ports.ts";
import { HostGoneError, type Logger, type RuntimeSandboxes } from "#engine/ports.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import { type KubeAdapter, startKube } from "#kube/adapter.ts";
import { ApiClient } from "#kube/api/client.ts";
import { plainKubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { type OneShotKube, openKubeOnce } from "#kube/one-shot.ts";
import { ApiStatusPublisher } from "#kube/status-publisher.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { defaultPaths, plexusConfName } from "#lib/files/default-paths.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { isAgent, isAttachingAgent, serveAgent } from "#serving/agent.ts";
import { AgentSessions } from "#serving/agent-sessions.ts";
import { Housekeeping } from "#serving/housekeeping.ts";
import { lazyKube } from "#standalone/lazy-kube.ts";
import { serveOneCall } from "#standalone/serve.ts";
import type { Scenario } from "../history/scenario.ts";
import type { Disk } from "../world/disk.ts";
import { Process } from "../world/schedule.ts";
import { type EngineProcess, type EngineSession, world } from "../world/world.ts";
import { listFiles } from "./mesh-agent.ts";
import { conflist, type NetworkName, networks, resources, runtimeConf } from "./networks.ts";

const { stateDir, cniStateDir } = defaultPaths;
/** The stand-in for the API's client reads none. */
const kubeconfig = "/etc/kubernetes/kubeconfig";
const nodeName = "node-1";
/** `terminationGracePeriodSeconds` of deploy/base/daemonset.yaml. */
const gracePeriodUs = 30e6;

const { apiTimeoutMs, statusWaitMs } = defaultConfig;
const now = (): string => new Date().toISOString();

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
  /^(the sockets|the configuration and credentials|the sweep of device|the search for definitions|the removal of the start-up)/;

/** What src/engine/add/finish-add.ts logs. */
const unrecordedStatus = "cannot record the network-status that is still to be published";

const logger: Logger = {
  ...noLogger,
  warn: (fields, message) => {
    world().note(() => `log: ${message} ${shown(fields)}`);
    if (message === unrecordedStatus) world().observer.statusNotRecorded(world().schedule.current);
  },
  error: (fields, message) => world().note(() => `log: ${message} ${shown(fields)}`),
  child: () => logger,
};

function shown(fields: object): string {
  const { err, ...others } = fields as { err?: unknown };
  const text = err instanceof Error ? ` ${err.message}` : "";
  return JSON.stringify(others) + text;
}

/** The kubelet's answer for each pod. */
const deviceSource: DeviceSource = {
  async devicesOf({ pod }) {
    const id = world().devices.get(pod.uid);
    const allocated = id === undefined ? [] : [{ id, source: "the kubelet" }];
    return new Map([[resources.vf ?? "", allocated]]);
  },
};

/** Both engines have these parts. */
const common = {
  deviceSources: [deviceSource],
  logger,
  metrics: emptyPorts.metrics,
  clock: bootClockMs,
  now,
};

type PlexusdConfig = Pick<EngineConfig, "publishStatus" | "hotPlug">;
type PlexusdScenario = PlexusdConfig & Pick<Scenario, "others">;

/** plexusd as src/daemon/start.ts connects it, without sockets, HTTP and the CNI configuration. */
export class Plexusd {
  readonly process = new Process("plexusd");
  readonly #runtimeSandboxes: RuntimeSandboxes;
  readonly #config: PlexusdConfig;
  readonly #agents = new AgentSessions();
  readonly #sessions = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #kube: KubeAdapter | undefined;
  #housekeeping: Housekeeping | undefined;
  #duties: NodeDuties | undefined;
  #records: FileRecordStore | undefined;
  readonly #keepsConf: boolean;
  #nodeConf: NodeConf | undefined;
  #isOpen = false;
  #isSignalled = false;

  private constructor(
    runtimeSandboxes: RuntimeSandboxes,
    { publishStatus, hotPlug, others }: PlexusdScenario,
  ) {
    this.#runtimeSandboxes = runtimeSandboxes;
    this.#keepsConf = others.mesh !== undefined;
    this.#config = { publishStatus, hotPlug };
  }

  /** Begins its start, which takes a while. `onEnd` is called when it has ended in any way. */
  static start(
    runtimeSandboxes: RuntimeSandboxes,
    config: PlexusdScenario,
    onEnd: () => void,
  ): Plexusd {
    const plexusd = new Plexusd(runtimeSandboxes, config);
    const { schedule, random } = world();
    world().note(() => "plexusd starts");
    plexusd.process.onEnd(() => {
      world().note(() => "plexusd ends");
      listen(plexusd, undefined);
      onEnd();
    });
    const loadingUs = random.duration(50_000, 500_000);
    schedule.at(loadingUs, () => void plexusd.#open(), plexusd.process);
    return plexusd;
  }

  /**
   * Begins its stop by SIGTERM: it serves the calls that it has and ends; at once while it starts.
   * The kubelet kills it after its grace period.
   */
  stop(): void {
    const { schedule } = world();
    schedule.at(gracePeriodUs, () => schedule.kill(this.process), schedule.outside);
    this.#isSignalled = true;
    const stop = (): void => {
      if (this.#isOpen) void this.#stop();
      else schedule.kill(this.process);
    };
    schedule.at(1, stop, this.process);
  }

  /** Whether it accepts calls, and continues to. */
  get isServing(): boolean {
    return world().daemon?.process === this.process && !this.#isSignalled;
  }

  /** Has it run its regular tasks, as it does when its configuration has changed. */
  runHousekeeping(): void {
    world().schedule.at(1, () => this.#housekeeping?.runNow(), this.process);
  }

  /** How many writes of statuses wait. */
  get pendingStatuses(): number {
    const publisher = this.#kube?.publisher;
    return publisher instanceof ApiStatusPublisher ? publisher.pending : 0;
  }

  /** The UIDs of the pods that it has seen by its watch. */
  get seenPods(): string[] {
    return (this.#kube?.nodePods.list() ?? []).map(({ uid }) => uid);
  }

  async #open(): Promise<void> {
    const records = await FileRecordStore.open(stateDir);
    const kube = await startKube({ kubeconfig, nodeName, apiTimeoutMs, statusWaitMs, logger });
    const bootId = await readBootId();
    const engine = new Engine({
      ...common,
      ...{ records, confFiles, source: kube.source, publisher: kube.publisher },
      events: kube.events,
      multusFiles: new HostMultusFiles(cniStateDir),
      deviceInfo: new HostDeviceInfoFiles(),
      config: () => this.#config,
      runtimeSandboxes: this.#runtimeSandboxes,
      bootId: () => bootId,
      leftoverDuty: "daemon",
    });
    if (this.#keepsConf)
      this.#nodeConf = await new NodeConf({
        ...{ spec: () => defaultConfig.nodeConf, stateDir, files: confFiles, logger },
      }).start();
    this.#kube = kube;
    this.#records = records;
    const current = { ...defaultConfig, engine: { ...defaultConfig.engine, ...this.#config } };
    const config = { current: () => current, text: () => "" };
    this.#duties = nodeDuties({
      ...{ config, records, logger, readiness: () => [] },
      cluster: { node: kube, events: kube.events },
      hosts: this.#agents,
      hotPlug: {
        ...{ engine, conf: () => readPlexusConf(cniConfDir, confFiles) },
        metrics: { operationEnded: () => undefined, statusWritten: () => undefined },
      },
    });
    this.#duties?.watch();
    const tasks = housekeepingTasks({
      ...{ config, engine, records, confFiles, sockets: [] },
      standaloneFiles: { refresh: async () => undefined },
      flags: { stateDir, socket: defaultPaths.socket, source: { kind: "api", kubeconfig } },
      duties: this.#duties,
    });
    this.#housekeeping = new Housekeeping(
      tasks.filter(({ name }) => !leftOut.test(name)),
      logger,
    );
    // The real start needs several turns of the event loop from here, in which it heeds the signal.
    if (this.#isSignalled) return world().schedule.kill(this.process);
    this.#isOpen = true;
    listen(this, {
      process: this.process,
      accept: (session) => this.#accept(engine, session),
    });
  }

  #accept(engine: Engine, session: EngineSession): void {
    const served = this.#serve(engine, session).finally(() => this.#sessions.delete(served));
    this.#sessions.add(served);
  }

  /** As `CallServer` does. */
  async #serve(engine: Engine, session: EngineSession): Promise<void> {
    try {
      const call = readCall(session.request);
      if (isAttachingAgent(call)) {
        const stopping = this.#stopping.signal;
        return await this.#agents.serve(engine, call, { session, stopping });
      }
      if (isAgent(call)) {
        return await serveAgent(engine, call, { host: session, stopping: this.#stopping.signal });
      }
      const { answer, afterAnswer } = await engine.handle(call, session);
      await session.done(answer).finally(afterAnswer);
    } catch (error) {
      if (!(error instanceof HostGoneError)) throw error;
    }
  }

  async #stop(): Promise<void> {
    world().note(() => "plexusd stops");
    this.#stopping.abort();
    await this.#duties?.hotPlug.stop();
    await this.#housekeeping?.stop();
    await this.#nodeConf?.stop();
    listen(this, undefined);
    while (this.#sessions.size > 0) await Promise.all(this.#sessions);
    await this.#kube?.stop();
    await this.#records?.flush();
    world().schedule.kill(this.process);
  }
}

/** Opens or closes the socket of a plexusd, unless another one has it. */
function listen({ process }: Plexusd, engine: EngineProcess | undefined): void {
  const present = world();
  if (engine === undefined && present.daemon?.process !== process) return;
  present.daemon = engine;
  for (const tell of present.onDaemonChange) tell();
}

/** plexus-standalone, which the shim starts for one call, with the configuration of plexusd. */
export function startStandalone({ hotPlug }: Pick<EngineConfig, "hotPlug">): EngineProcess {
  const process = new Process("plexus-standalone");
  const open = async (): Promise<OneShotKube> => {
    const client = new ApiClient(await plainKubeconfigCredentials(kubeconfig));
    return openKubeOnce({ client, nodeName, apiTimeoutMs, statusWaitMs, logger });
  };
  const accept = (session: EngineSession): void => {
    const serving = serveOneCall({
      session: {
        request: async () => session.request,
        exec: (call) => session.exec(call),
        find: (path, types) => session.find(path, types),
        netlink: (netns, messages) => session.netlink(netns, messages),
        done: (answer) => session.done(answer),
        gone: session.gone,
      },
      stateDir,
      ...{ config: { hotPlug }, logger, clock: bootClockMs, now, closeOutput: () => undefined },
      openCluster: async () => ({
        ...lazyKube({ open, logger, closeGraceMs: 2000 }),
        deviceSources: [deviceSource],
      }),
    });
    const end = (): void => world().schedule.kill(process);
    void serving.then(end, end);
  };
  return { process, accept };
}
