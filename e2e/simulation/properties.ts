import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { isMadeOnce } from "#engine/del/netns-path.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { statusChanged } from "./api/exchange.ts";
import { CallTimes } from "./call-times.ts";
import { forbiddenPlugin } from "./node/networks.ts";
import type { CallEnd, Sandbox } from "./node/runtime.ts";
import { hasRecord, hasUnusableRecord, isRecorded, recordProblem } from "./recorded.ts";
import type { Attached } from "./world/attached.ts";
import type { Process } from "./world/schedule.ts";
import { type Observer, world } from "./world/world.ts";

/** What holds in every history. */
const properties = {
  recorded: "No delegate attaches anything that is not recorded as attempted.",
  "detached at once": "After a DEL that succeeded, nothing of its sandbox is attached.",
  permitted: "No delegate runs that attachmentPolicy does not permit.",
  durable: "The record of an ADD that succeeded survives any power loss.",
  "in the end": "A DEL succeeds once the cause of its failure is gone.",
  "ended at once":
    "After a DEL that succeeded, no delegate of its sandbox runs, and none is started for an ADD.",
  "one at a time": "No two delegates of a sandbox run at the same time.",
  "status eventually":
    "Once the API server answers, a pod's network-status lists exactly what is attached.",
  patient: "A status is not written again before the API server's delay is over.",
  sparing:
    "A busy API server gets one write of each status, and at most two more in all. Between two attachments, no process writes a status for a fourth time unless others change it.",
  "as requested":
    "A running pod has exactly the networks of its annotation, after each edit, and its devices in order.",
  "default routes":
    "A running pod has the default routes of the network that requests them, or else of its primary network.",
  "cluster routes":
    "A running pod with further networks has its routes to the cluster on its primary network's interface.",
  "endpoints eventually":
    "Once all is repaired, a Service's EndpointSlices have exactly the addresses that network-status has, each once.",
  watched: "Once the API server answers, plexusd sees its pods.",
  bounded: "Files, descriptors and waiting writes do not grow with what has come and gone.",
  "never what runs": "What is attached for a running sandbox stays attached.",
  "beside others":
    "A plugin that an agent appends to the node's configuration stays, runs once for a pod, and goes with its agent.",
  answered:
    "The runtime does not have to end a call, unless its delegates take that long. A DEL takes less than two minutes, whatever they do.",
  independent: "A call does not wait for the delegates of another pod.",
  explained:
    "Once all is repaired, explain is ok exactly when a pod has what it requests, and its status shows it.",
  asserted: "No assertion of Plexus fails.",
  unexpected: "plexusd handles every failure.",
} as const;
export type Property = keyof typeof properties;

/** A property that a history does not have. */
export interface Violation {
  readonly property: Property;
  readonly details: string;
}

/** What the properties need to know of one sandbox. */
interface Watched {
  hasAdd: boolean;
  delBegan: boolean;
  /** A DEL succeeded, and no ADD began since. */
  isDetached: boolean;
  readonly running: Set<Process>;
  /** What its ADDs' plugins have left running, and how many calls had begun before. */
  readonly children: Map<Process, number>;
  calls: number;
  /** What its last successful ADD has left attached. */
  made: readonly Attached[];
  /** The interfaces that it made, which may have more default routes. */
  links: readonly Attached[];
  /** Of its delegates in all, but for those that run since {@link startedUs}. */
  delegateUs: number;
  startedUs: number;
  /** By the start of each call: what its delegates had taken then. */
  readonly before: Map<number, number>;
}

/** What the properties depend on. */
interface PropertiesOptions {
  /** Whether a sandbox runs, as the runtime knows it. */
  isRunning(containerId: string): boolean;
  /** Whether the disk may have no room for a lock, and then nothing waits for leftover processes. */
  readonly lacksRoom: boolean;
  /** How often plexusd may be stopped. */
  readonly stops: number;
  /** Whether networks of running pods change, but for the default network. */
  readonly hotPlug: boolean;
}

/** Watches a history, and keeps the first violation. */
export class Properties implements Observer {
  readonly #sandboxes = new Map<string, Watched>();
  /** Types of plugins that have been missing for longer than Plexus waits for them. */
  readonly lostPlugins = new Set<string>();
  /** Types of plugins whose DEL has failed for as long. */
  readonly failedPlugins = new Set<string>();
  /** Sandboxes of which an ADD has succeeded. */
  readonly #added = new Set<string>();
  /** Sandboxes whose ADD did not end before a power loss, which took the record that could not be synced. */
  readonly #lostRecords = new Set<string>();
  readonly #options: PropertiesOptions;
  violation: Violation | undefined;
  /** Since when nothing fails any more, and everything has been tried again. */
  calmSinceUs = Number.POSITIVE_INFINITY;
  readonly #times: CallTimes;
  #lastAddUs = Number.NEGATIVE_INFINITY;

  constructor(options: PropertiesOptions) {
    this.#options = options;
    this.#times = new CallTimes(options);
  }

  /** A plugin that is missing for too long counts as lost, with what it made on the host. */
  mayStay(made: Attached): boolean {
    if (this.#isForgotten(made)) return true;
    const { kind, plugin, containerId } = made;
    // An agent that sees no namespace lets links go with the namespace.
    if (kind === "link" && world().isAgentBlind) return true;
    return kind === "host state" && this.#isLost({ plugin, containerId });
  }

  /**
   * Without its record, a DEL knows only a sandbox's default network, and nothing else knows that.
   * What is no lease was gone when the machine started.
   */
  #isForgotten({ kind, containerId, ifName }: Attached): boolean {
    if (kind !== "lease" || !this.#lostRecords.has(containerId)) return false;
    return ifName !== "eth0" || !this.#watched(containerId).isDetached;
  }

  /** What an ADD has not attached is given up although the DEL of its plugin fails. */
  #isLost({ plugin, containerId }: Pick<Attached, "plugin" | "containerId">): boolean {
    const isFailed = this.failedPlugins.has(plugin) && !this.#added.has(containerId);
    return isFailed || this.lostPlugins.has(plugin);
  }

  violate(property: Property, details: string): void {
    world().note(() => `VIOLATION of "${property}": ${details}`);
    this.violation ??= { property, details };
  }

  /** Something may delay calls that begin before so many microseconds have passed. */
  disturb(durationUs: number): void {
    this.#times.disturb(durationUs);
  }

  delegateStarted(call: DelegateCall, process: Process): void {
    const { command, id } = identityOf(call);
    if (id === "") return;
    if (call.type === forbiddenPlugin) this.violate("permitted", `${command} of ${id}`);
    const watched = this.#watched(id);
    if (process.name.startsWith("child")) {
      this.#childStarted(process, id);
      return;
    }
    const [other] = [...watched.running, ...this.#earlierChildren(watched)];
    if (other !== undefined)
      this.violate("one at a time", `${call.type} ${command} begins beside ${other.name} of ${id}`);
    if (watched.running.size === 0) watched.startedUs = world().schedule.nowUs;
    watched.running.add(process);
    process.onEnd(() => this.delegateEnded(call, process));
    if (command === "DEL") {
      const mayStop = this.#options.hotPlug && call.env.CNI_IFNAME !== "eth0";
      if (watched.hasAdd && !watched.delBegan && !mayStop && this.#options.isRunning(id))
        this.violate("never what runs", `${call.type} DEL of ${id}, which runs`);
      return;
    }
    if (watched.isDetached)
      this.violate("ended at once", `${call.type} ${command} of ${id} after its DEL`);
    if (command === "ADD") statusChanged();
    const unrecorded = command === "ADD" ? recordProblem(call) : undefined;
    if (unrecorded !== undefined) this.violate("recorded", unrecorded);
  }

  /** What an ADD's plugin has left running works in its place. */
  #childStarted(process: Process, id: string): void {
    const watched = this.#watched(id);
    if (watched.isDetached && !this.#options.lacksRoom)
      this.violate("ended at once", `${process.name} of ${id} works after its DEL`);
    watched.children.set(process, watched.calls);
  }

  delegateEnded(call: DelegateCall, process: Process): void {
    const watched = this.#sandboxes.get(identityOf(call).id);
    if (watched?.running.delete(process) !== true || watched.running.size > 0) return;
    watched.delegateUs += world().schedule.nowUs - watched.startedUs;
  }

  requestedTooEarly(request: string, askedUs: number): void {
    // Another sandbox may have the same status.
    if (this.#lastAddUs < askedUs) this.violate("patient", request);
  }

  writtenTooOften(details: string): void {
    this.violate("sparing", details);
  }

  assertionBroken(details: string): void {
    this.violate("asserted", details);
  }

  callStarted(command: string, sandbox: Sandbox | undefined): void {
    this.#times.started(command);
    if (sandbox === undefined) return;
    const watched = this.#watched(sandbox.id);
    watched.calls += 1;
    if (command === "ADD") {
      watched.isDetached = false;
      this.#lastAddUs = world().schedule.nowUs;
    }
    if (command === "DEL") {
      if (!watched.delBegan) this.mustHaveAll(sandbox);
      watched.delBegan = true;
    }
    watched.before.set(world().schedule.nowUs, delegateUsOf(watched));
  }

  callEnded(end: CallEnd): void {
    const { command, sandbox } = end;
    this.#times.ended(end);
    if (sandbox === undefined) return;
    const watched = this.#watched(sandbox.id);
    const delegateUs = delegateUsOf(watched) - (watched.before.get(end.startedUs) ?? 0);
    const late = this.#times.problem(end, delegateUs);
    if (late !== undefined) this.violate(late.property, late.details);
    if (command === "DEL" && !end.isSuccess && end.startedUs >= this.calmSinceUs)
      this.violate("in the end", `a DEL of ${sandbox.id} fails without a cause`);
    if (!end.isSuccess) return;
    if (command === "ADD") {
      watched.hasAdd = true;
      this.#added.add(sandbox.id);
      const { hotPlug } = this.#options;
      const made = world().kernel.attachedOf(sandbox.id);
      watched.made = made.filter(({ ifName }) => !hotPlug || ifName === "eth0");
      watched.links = made.filter(({ kind }) => kind === "link");
    }
    if (command === "DEL") this.#mustBeDetached(sandbox, watched);
  }

  /** The power is lost. @param unsynced the files that the disk failed to sync */
  powerLost(unsynced: ReadonlySet<string>): void {
    for (const [id, watched] of this.#sandboxes) this.#dropDetached(id, watched);
    const names = [...unsynced].map((path) => /([^./]+)@[^/]*\.record/.exec(path)?.[1]);
    for (const [id, { hasAdd }] of this.#sandboxes) {
      const isUnsynced = unsynced.has(defaultPaths.stateDir) || names.includes(id);
      if (!hasAdd && isUnsynced) this.#lostRecords.add(id);
    }
  }

  /** After an earlier power loss, plexusd or plexus-standalone may have detached a part, or all. */
  #dropDetached(id: string, watched: Watched): void {
    if (!watched.hasAdd || this.#options.isRunning(id)) return;
    const there = new Set(world().kernel.attachedOf(id).map(keyOf));
    watched.made = watched.made.filter((each) => there.has(keyOf(each)));
    watched.hasAdd = watched.made.length > 0;
  }

  /** After a power loss, when the machine has its disk again. */
  machineStarted(): void {
    for (const id of this.#lostRecords) if (isRecorded(id, [])) this.#lostRecords.delete(id);
    for (const [id, watched] of this.#sandboxes) {
      if (watched.hasAdd && !watched.delBegan && !isRecorded(id, watched.made))
        this.violate("durable", `${id} was attached, and its record is lost`);
      // A finished record may come back, and is detached again.
      if (watched.isDetached) this.#sandboxes.delete(id);
    }
  }

  /** What a running sandbox's ADD has made stays, as long as its namespace. */
  mustHaveAll(sandbox: Sandbox): void {
    const { id } = sandbox;
    const { made, hasAdd } = this.#watched(id);
    const { kernel } = world();
    if (!hasAdd || !kernel.hasNamespaceOf(sandbox)) return;
    const there = new Set(kernel.attachedOf(id).map(keyOf));
    const gone = made.filter((each) => !there.has(keyOf(each)));
    if (gone.length > 0) this.violate("never what runs", `${id} has lost ${JSON.stringify(gone)}`);
  }

  /** Whether the runtime's ADD attached an interface to a network. */
  hasAdded(id: string, { ifName, network }: Pick<Attached, "ifName" | "network">): boolean {
    const { links } = this.#watched(id);
    return links.some((each) => each.ifName === ifName && each.network === network);
  }

  #watched(id: string): Watched {
    let watched = this.#sandboxes.get(id);
    if (watched === undefined) {
      watched = {
        ...{ hasAdd: false, delBegan: false, isDetached: false },
        ...{ running: new Set<Process>(), delegateUs: 0, startedUs: 0 },
        ...{
          children: new Map<Process, number>(),
          calls: 0,
          made: [],
          links: [],
          before: new Map(),
        },
      };
      this.#sandboxes.set(id, watched);
    }
    return watched;
  }

  #mustBeDetached(sandbox: Sandbox, watched: Watched): void {
    watched.isDetached = true;
    watched.hasAdd = false;
    // The links of a lost plugin disappear with the namespace. So do those of a sandbox that a blind
    // agent has detached, and those in what may be the namespace of an unusable record.
    const mayBeOthers = (netns: string): boolean => !isMadeOnce(netns) && hasUnusableRecord();
    const left = world()
      .kernel.attachedOf(sandbox.id)
      .filter((each) => !this.#isForgotten(each))
      .filter((each) => each.kind === "lease" || !this.#isLost(each))
      .filter(
        ({ kind, netns }) => kind !== "link" || !(world().isAgentBlind || mayBeOthers(netns)),
      );
    if (left.length > 0)
      this.violate("detached at once", `${sandbox.id} still has ${JSON.stringify(left)}`);
    const [running] = [...watched.running, ...this.#earlierChildren(watched)];
    if (running !== undefined)
      this.violate("ended at once", `${running.name} of ${sandbox.id} still runs`);
    // A plexusd that was stopped may record an ADD whose shim has gone, and end before it notices.
    if (hasRecord(sandbox.id) && this.#options.stops === 0)
      this.violate("detached at once", `${sandbox.id} still has its record`);
  }

  /** What plugins of a sandbox's earlier calls have left running. */
  #earlierChildren({ children, calls }: Watched): Process[] {
    if (this.#options.lacksRoom) return [];
    return [...children].flatMap(([child, before]) =>
      child.isAlive && before < calls ? [child] : [],
    );
  }
}

function delegateUsOf({ running, delegateUs, startedUs }: Watched): number {
  return delegateUs + (running.size > 0 ? world().schedule.nowUs - startedUs : 0);
}

function identityOf({ env }: DelegateCall): { command: string; id: string } {
  return { command: env.CNI_COMMAND ?? "", id: env.CNI_CONTAINERID ?? "" };
}

function keyOf({ kind, plugin, network, ifName }: Attached): string {
  return `${kind} ${plugin} ${network} ${ifName}`;
}
