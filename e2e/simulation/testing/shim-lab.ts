import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import type { ExecMessage } from "#protocol/messages.ts";
import { encodePlan, type PlanMessage } from "#protocol/plan.ts";
import { type RunningShim, startShim } from "../node/shim.ts";
import { Disk } from "../world/disk.ts";
import type { DelegateBehaviour, DelegateFault, DiskFault } from "../world/faults.ts";
import { Kernel } from "../world/kernel.ts";
import { Random } from "../world/random.ts";
import { Process, Schedule } from "../world/schedule.ts";
import { type EngineSession, enterWorld, type Observer, type World } from "../world/world.ts";

const { stateDir } = defaultPaths;
const conf = { cniVersion: "1.0.0", name: "n", type: "plexus" };
/** Of a pod, in every lab. */
export const netns = "/run/netns/c1";

/** One order for a plugin that leaves nothing. */
export function order(ifName: string, parts: Partial<DelegateCall> = {}): DelegateCall {
  return {
    type: "tuning",
    searchPath: ["/opt/cni/bin"],
    stdin: JSON.stringify({ ...conf, type: "tuning", prevResult: {} }),
    timeoutMs: 1000,
    ...parts,
    env: {
      CNI_COMMAND: "DEL",
      CNI_CONTAINERID: "c1",
      CNI_IFNAME: ifName,
      CNI_NETNS: "",
      ...parts.env,
    },
  };
}

/** Everything takes the longest time, so that what is left running outlasts its call. */
class SlowRandom extends Random {
  override duration(_: number, max: number): number {
    return max;
  }
}

/** A machine with nothing but the shim, and what it calls. */
export class ShimLab {
  readonly runtime = new Process("runtime");
  readonly world: World;
  readonly notes: string[] = [];
  /** The delegates that were executed: `COMMAND CONTAINER INTERFACE NETNS`. */
  readonly executed: string[] = [];
  /** By interface, instead of `works`. */
  readonly behaviours = new Map<string, DelegateBehaviour>();
  durationUs = 1000;
  behaviourOf = (ifName: string, _command: string): DelegateFault => ({
    behaviour: this.behaviours.get(ifName) ?? "works",
    durationUs: this.durationUs,
  });
  /** What happens to changes of the disk. */
  disk: (operation: string, path: string) => DiskFault = () => "none";

  constructor(seed = 1) {
    const random = new SlowRandom(seed);
    const schedule = new Schedule(random);
    const disk = new Disk();
    const faults = {
      delegate: ({ env }: DelegateCall) => {
        const { CNI_COMMAND = "", CNI_CONTAINERID, CNI_IFNAME = "", CNI_NETNS } = env;
        this.executed.push(`${CNI_COMMAND} ${CNI_CONTAINERID} ${CNI_IFNAME} '${CNI_NETNS}'`);
        return this.behaviourOf(CNI_IFNAME, CNI_COMMAND);
      },
      disk: (operation: string, path: string) => this.disk(operation, path),
    };
    const observer: Observer = {
      delegateStarted: () => undefined,
      delegateEnded: () => undefined,
      assertionBroken: () => undefined,
      requestedTooEarly: () => undefined,
      writtenTooOften: () => undefined,
    };
    this.world = {
      ...{ random, schedule, faults, observer, disk, kernel: new Kernel(random, disk) },
      ...{ daemon: undefined, onDaemonChange: new Set() },
      ...{ missingPlugins: new Set(), unexecutable: new Set() },
      ...{ startStandalone: undefined, standalones: new Map() },
      ...{ clockOffsetMs: 0, losePower: () => schedule.killAll() },
      note: (text: () => string) => this.notes.push(`${schedule.nowUs} ${text()}`),
    } as unknown as World;
    enterWorld(this.world);
    this.world.kernel.addNamespace(netns);
  }

  get nowMs(): number {
    return Math.round(this.world.schedule.nowUs / 1000);
  }

  /** Runs code as the container runtime's, until it is over. @throws Error as the code */
  async run<T>(code: () => Promise<T>): Promise<T> {
    const { schedule } = this.world;
    let result: Promise<T> | undefined;
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    schedule.at(
      0,
      () => {
        result = code();
        result.then(over, over);
      },
      this.runtime,
    );
    await schedule.run(() => isOver);
    if (result === undefined || !isOver) throw new Error(`it never ends\n${this.notes.join("\n")}`);
    return result;
  }

  /** Executes the shim from code of {@link run}. */
  start(env: Readonly<Record<string, string>> = {}): RunningShim {
    const common = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0" };
    return startShim({ env: { ...common, ...env }, stdin: JSON.stringify(conf) });
  }

  /** Runs one call. @returns its exit status and, if it failed, its CNI code: `1 11` */
  async call(env: Readonly<Record<string, string>> = {}): Promise<string> {
    return statusOf(await this.start(env).ended);
  }

  /** Has an engine serve calls from now on. */
  listen(
    serve: (session: EngineSession) => Promise<void>,
    process = new Process("plexusd"),
  ): Process {
    const accept = (session: EngineSession): void => {
      serve(session).catch((error: unknown) => this.notes.push(`engine: ${String(error)}`));
    };
    this.#daemon({ process, accept });
    process.onEnd(() => this.#daemon(undefined));
    return process;
  }

  writePlan(ifNames: readonly string[], parts: Partial<PlanMessage> = {}, name?: string): void {
    const bytes = encodePlan(
      {
        containerId: "c1",
        ifName: "eth0",
        bootId: this.world.kernel.bootId,
        attempted: 99,
        calls: ifNames.map(step),
        ...parts,
      },
      { schema: "2", text: "{}" },
    );
    const path = `${stateDir}/${name ?? recordFileName({ containerId: "c1", ifName: "eth0" })}`;
    this.world.disk.writeFile(path, bytes, 0o600);
  }

  /** The files of the state directory with their modes: `NAME MODE`. */
  files(): string[] {
    const { disk } = this.world;
    return disk
      .list(stateDir)
      .map(([name]) => `${name} ${(disk.stat(`${stateDir}/${name}`).mode & 0o7777).toString(8)}`)
      .toSorted();
  }

  #daemon(daemon: World["daemon"]): void {
    this.world.daemon = daemon;
    for (const tell of this.world.onDaemonChange) tell();
  }
}

/** A step of a plan, each in a separate group unless the name has one: `net1:0`. */
function step(name: string, index: number): ExecMessage {
  const [ifName = "", group = index] = name.split(":");
  return { ...order(ifName), group: Number(group) };
}

export function statusOf(exit: { status: number; stdout: string } | undefined): string {
  if (exit === undefined) return "killed";
  const code = exit.stdout.startsWith("{")
    ? (JSON.parse(exit.stdout) as { code?: number }).code
    : undefined;
  return code === undefined ? String(exit.status) : `${exit.status} ${code}`;
}
