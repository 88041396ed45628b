import { defaultConfig } from "#daemon/config/config.ts";
import { housekeepingTasks } from "#daemon/housekeeping-tasks.ts";
import { nodeDuties } from "#daemon/pods/duties.ts";
import { HostDeviceInfoFiles } from "#devices/device-info-files.ts";
import { readCall } from "#engine/call/call.ts";
import type { EngineMetrics } from "#engine/call/deps.ts";
import { Engine } from "#engine/engine.ts";
import { HostGoneError, type Logger, type RuntimeSandboxes } from "#engine/ports.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { HostMultusFiles } from "#host/multus-files.ts";
import { type KubeAdapter, startKube } from "#kube/adapter.ts";
import { openKubeOnce } from "#kube/one-shot.ts";
import { ApiStatusPublisher } from "#kube/status-publisher.ts";
import { bootClockMs } from "#lib/boot-clock.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { FileRecordStore } from "#records/file-store.ts";
import { isAgent, serveAgent } from "#serving/agent.ts";
import { Housekeeping } from "#serving/housekeeping.ts";
import { lazyKube } from "#standalone/lazy-kube.ts";
import { serveOneCall } from "#standalone/serve.ts";
import { Process } from "../world/schedule.ts";
import { type EngineProcess, type EngineSession, world } from "../world/world.ts";

const { stateDir, cniStateDir } = defaultPaths;
/** The stand-in for the API's client reads none. */
const kubeconfig = "/etc/kubernetes/kubeconfig";
const nodeName = "node-1";

const { apiTimeoutMs, statusWaitMs } = defaultConfig;
const config = { current: () => defaultConfig, text: () => "" };
const now = (): string => new Date().toISOString();

/** Tasks that need sockets, credentials or devices, which the simulation has not. */
const leftOut =
  /^(the sockets|the configuration and credentials|the sweep of device|the removal of the start-up)/;

const logger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (fields, message) => world().note(() => `log: ${message} ${shown(fields)}`),
  error: (fields, message) => world().note(() => `log: ${message} ${shown(fields)}`),
  child: () => logger,
};

function shown(fields: object): string {
  const { err, ...others } = fields as { err?: unknown };
  const text = err instanceof Error ? ` ${err.message}` : "";
  return JSON.stringify(others) + text;
}

const metrics: EngineMetrics = {
  requestStarted: () => undefined,
  requestEnded: () => undefined,
  delegateEnded: () => undefined,
};

/** Both engines have these parts. */
const common = {
  config: () => ({}),
  deviceSources: [],
  logger,
  metrics,
  clock: bootClockMs,
  now,
};

/** plexusd as src/daemon/start.ts connects it, without sockets, HTTP and the CNI configuration. */
export class Plexusd {
  readonly process = new Process("plexusd");
  readonly #runtimeSandboxes: RuntimeSandboxes;
  readonly #sessions = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #kube: KubeAdapter | undefined;
  #housekeeping: Housekeeping | undefined;
  #records: FileRecordStore | undefined;

  private constructor(runtimeSandboxes: RuntimeSandboxes) {
    this.#runtimeSandboxes = runtimeSandboxes;
  }

  /** Begins its start, which takes a while. `onEnd` is called when it has ended in any way. */
  static start(runtimeSandboxes: RuntimeSandboxes, onEnd: () => void): Plexusd {
    const plexusd = new Plexusd(runtimeSandboxes);
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

  /** Begins its stop by SIGTERM: it serves the calls that it has and ends. */
  stop(): void {
    world().schedule.at(1, () => void this.#stop(), this.process);
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
    const confFiles = new HostConfFiles();
    const engine = new Engine({
      ...common,
      ...{ records, confFiles, source: kube.source, publisher: kube.publisher },
      events: kube.events,
      multusFiles: new HostMultusFiles(cniStateDir),
      deviceInfo: new HostDeviceInfoFiles(),
      runtimeSandboxes: this.#runtimeSandboxes,
      bootId: () => bootId,
      repeatsTeardowns: true,
    });
    this.#kube = kube;
    this.#records = records;
    const cluster = { ...kube, node: kube };
    const tasks = housekeepingTasks({
      ...{ nodeName, config, engine, records, confFiles, logger, sockets: [] },
      flags: { stateDir, socket: defaultPaths.socket, source: { kind: "api", kubeconfig } },
      duties: nodeDuties({
        ...{ config, records, logger, readiness: () => [] },
        cluster: { ...cluster, nodeConfChanged() {}, configInvalid() {}, close: kube.stop },
      }),
    });
    this.#housekeeping = new Housekeeping(
      tasks.filter(({ name }) => !leftOut.test(name)),
      logger,
    );
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
      if (isAgent(call)) {
        return await serveAgent(engine, call, { host: session, stopping: this.#stopping.signal });
      }
      const { answer, log } = await engine.handle(call, session);
      await session.done(answer).finally(log);
    } catch (error) {
      if (!(error instanceof HostGoneError)) throw error;
    }
  }

  async #stop(): Promise<void> {
    world().note(() => "plexusd stops");
    this.#stopping.abort();
    await this.#housekeeping?.stop();
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

/** plexus-standalone, which the shim starts for one call. */
export function startStandalone(): EngineProcess {
  const process = new Process("plexus-standalone");
  const open = (): ReturnType<typeof openKubeOnce> =>
    openKubeOnce({ kubeconfig, nodeName, apiTimeoutMs, statusWaitMs, logger });
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
      ...{ config: {}, logger, clock: bootClockMs, now },
      openCluster: async () => ({
        ...lazyKube({ open, logger, closeGraceMs: 2000 }),
        deviceSources: [],
      }),
    });
    const end = (): void => world().schedule.kill(process);
    void serving.then(end, end);
  };
  return { process, accept };
}
