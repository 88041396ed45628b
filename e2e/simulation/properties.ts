import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { decodePlan } from "#protocol/plan.ts";
import type { CallEnd, Sandbox } from "./node/runtime.ts";
import type { Attached } from "./world/attached.ts";
import type { Process } from "./world/schedule.ts";
import { type Observer, world } from "./world/world.ts";

/** What holds in every history. */
export const properties = {
  recorded: "No delegate attaches anything that is not recorded as attempted.",
  "detached at once": "When a DEL has succeeded, nothing of its sandbox is attached.",
  durable: "The record of a pod whose ADD has succeeded survives any power loss.",
  "in the end": "A DEL succeeds once the cause of its failure is gone.",
  "ended at once":
    "When a DEL has succeeded, no delegate of its sandbox runs, and none is started for an ADD.",
  "one at a time": "No two delegates of a sandbox run at the same time.",
  "status eventually":
    "The network-status of a pod lists exactly what is attached once the API server answers.",
  watched: "plexusd sees the pods that the API server has, once that answers.",
  bounded: "Files, descriptors and waiting writes do not grow with what has come and gone.",
  "never what runs": "What is attached for a running sandbox stays attached.",
  answered: "The runtime does not have to end a call, unless its delegates take that long.",
  independent: "A call does not wait for the delegates of another pod.",
  unexpected: "plexusd does not fail in a way that nothing handles.",
} as const;
export type Property = keyof typeof properties;

/** A property that a history does not have. */
export interface Violation {
  readonly property: Property;
  readonly details: string;
}

/** How long a DEL, STATUS or GC may work on a leftover, and how long a GC may exclude others. */
const leftoverUs = 5e6;
const garbageUs = 10e6;
/** For what else a call does. */
const slackUs = 5e6;
/**
 * From here on delegates are the reason that a call takes long: the runtime ends a cleanup after 60 s,
 * and the shim waits 30 s for a plexusd that hangs.
 */
const hangingUs = 28e6;

/** What the properties need to know of one sandbox. */
interface Watched {
  hasAdd: boolean;
  delBegan: boolean;
  /** A DEL succeeded, and no ADD began since. */
  isDetached: boolean;
  readonly running: Set<Process>;
  /** Of its delegates in all. */
  delegateUs: number;
  startedUs: number;
}

/** Watches a history, and keeps the first violation. */
export class Properties implements Observer {
  readonly #sandboxes = new Map<string, Watched>();
  /** Types of plugins that were missing for longer than Plexus waits for them. */
  readonly lostPlugins = new Set<string>();
  /** Whether a sandbox runs, as the runtime knows it. */
  readonly #isRunning: (containerId: string) => boolean;
  violation: Violation | undefined;
  /** Whether a process has ended that alone knew a network-status, which may then stay unwritten. */
  hasLostStatus = false;
  #disturbedUs = Number.NEGATIVE_INFINITY;
  readonly #inFlight = new Map<string, number>();

  constructor(isRunning: (containerId: string) => boolean) {
    this.#isRunning = isRunning;
  }

  /** A plugin that is missing for too long counts as lost, with what it made on the host. */
  mayStay({ kind, plugin }: Attached): boolean {
    return kind === "host state" && this.lostPlugins.has(plugin);
  }

  violate(property: Property, details: string): void {
    world().note(() => `VIOLATION of "${property}": ${details}`);
    this.violation ??= { property, details };
  }

  /** Something may delay all calls that begin before so many microseconds have passed. */
  disturb(durationUs: number): void {
    this.#disturbedUs = Math.max(this.#disturbedUs, world().schedule.nowUs + durationUs);
  }

  delegateStarted(call: DelegateCall, process: Process): void {
    const { command, id } = identityOf(call);
    if (id === "" || process.name.startsWith("child")) return;
    const watched = this.#watched(id);
    if (watched.running.size > 0)
      this.violate("one at a time", `${call.type} ${command} begins beside another of ${id}`);
    if (watched.running.size === 0) watched.startedUs = world().schedule.nowUs;
    watched.running.add(process);
    process.onEnd(() => this.delegateEnded(call, process));
    if (command === "DEL") {
      if (watched.hasAdd && !watched.delBegan && this.#isRunning(id))
        this.violate("never what runs", `${call.type} DEL of ${id}, which runs`);
      return;
    }
    if (watched.isDetached)
      this.violate("ended at once", `${call.type} ${command} of ${id} after its DEL`);
    if (command === "ADD") this.#mustBeRecorded(call, id);
  }

  delegateEnded(call: DelegateCall, process: Process): void {
    const watched = this.#sandboxes.get(identityOf(call).id);
    if (watched?.running.delete(process) !== true || watched.running.size > 0) return;
    watched.delegateUs += world().schedule.nowUs - watched.startedUs;
  }

  statusNotRecorded(process: Process): void {
    process.onEnd(() => {
      this.hasLostStatus = true;
    });
  }

  callStarted(command: string, sandbox: Sandbox | undefined): void {
    this.#inFlight.set(command, (this.#inFlight.get(command) ?? 0) + 1);
    if (sandbox === undefined) return;
    const watched = this.#watched(sandbox.id);
    if (command === "ADD") watched.isDetached = false;
    if (command === "DEL") watched.delBegan = true;
    watched.delegateUs = 0;
  }

  callEnded(end: CallEnd): void {
    const { command, sandbox, exit } = end;
    this.#inFlight.set(command, (this.#inFlight.get(command) ?? 1) - 1);
    if (sandbox === undefined) return;
    const watched = this.#watched(sandbox.id);
    this.#mustBeQuick(end, watched);
    if (end.isTimedOut && watched.delegateUs < hangingUs)
      this.violate("answered", `the runtime ended ${command} of ${sandbox.id}`);
    if (exit?.status !== 0) return;
    if (command === "ADD") watched.hasAdd = true;
    if (command === "DEL") this.#mustBeDetached(sandbox, watched);
  }

  /** After a power loss, when the machine has its disk again. */
  machineStarted(): void {
    for (const [id, watched] of this.#sandboxes) {
      const path = recordPath(id);
      if (watched.hasAdd && !watched.delBegan && !world().disk.exists(path))
        this.violate("durable", `${id} was attached, and its record is lost`);
      // A finished record may come back, and is detached again.
      if (watched.isDetached) this.#sandboxes.delete(id);
    }
  }

  #watched(id: string): Watched {
    let watched = this.#sandboxes.get(id);
    if (watched === undefined) {
      watched = {
        ...{ hasAdd: false, delBegan: false, isDetached: false },
        ...{ running: new Set<Process>(), delegateUs: 0, startedUs: 0 },
      };
      this.#sandboxes.set(id, watched);
    }
    return watched;
  }

  #mustBeRecorded(call: DelegateCall, id: string): void {
    const ifName = call.env.CNI_IFNAME ?? "";
    const path = recordPath(id);
    const { disk } = world();
    if (!disk.exists(path)) {
      this.violate("recorded", `${call.type} ADD of ${id}: no record`);
      return;
    }
    const { calls, attempted } = decodePlan(disk.readFile(path));
    const isPlanned = calls.some(
      (del) => del.type === call.type && del.env.CNI_IFNAME === ifName && del.group < attempted,
    );
    if (!isPlanned)
      this.violate("recorded", `${call.type} ADD ${ifName} of ${id}: the plan has no DEL of it`);
  }

  #mustBeDetached(sandbox: Sandbox, watched: Watched): void {
    watched.isDetached = true;
    watched.hasAdd = false;
    // The links of a lost plugin disappear with the namespace.
    const left = world()
      .kernel.attachedOf(sandbox.id)
      .filter(({ kind, plugin }) => kind === "lease" || !this.lostPlugins.has(plugin));
    if (left.length > 0)
      this.violate("detached at once", `${sandbox.id} still has ${JSON.stringify(left)}`);
    if (watched.running.size > 0)
      this.violate("ended at once", `a delegate of ${sandbox.id} still runs`);
    if (world().disk.exists(recordPath(sandbox.id)))
      this.violate("detached at once", `${sandbox.id} still has its record`);
  }

  #mustBeQuick({ command, sandbox, startedUs }: CallEnd, { delegateUs }: Watched): void {
    if (startedUs <= this.#disturbedUs) return;
    const tookUs = world().schedule.nowUs - startedUs - delegateUs;
    const garbage = (this.#inFlight.get("GC") ?? 0) > 0 ? garbageUs : 0;
    if (tookUs > slackUs + garbage + (command === "ADD" ? 0 : leftoverUs))
      this.violate(
        "independent",
        `${command} of ${sandbox?.id} took ${Math.round(tookUs / 1000)} ms besides its delegates`,
      );
  }
}

function identityOf({ env }: DelegateCall): { command: string; id: string } {
  return { command: env.CNI_COMMAND ?? "", id: env.CNI_CONTAINERID ?? "" };
}

/** The file of a sandbox's record. */
function recordPath(containerId: string): string {
  return `${defaultPaths.stateDir}/${recordFileName({ containerId, ifName: "eth0" })}`;
}
