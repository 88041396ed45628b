import { networksAnnotation } from "#npwg/selection/selection.ts";
import { inProcess } from "../world/remote.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import type { Runtime, Sandbox, SimulatedPod } from "./runtime.ts";

/** The devices that the kubelet gives to pods. */
const deviceIds = ["0000:04:02.3", "0000:04:02.0", "0000:04:02.2", "0000:04:02.1"];

/** A pod that is to run on this node, until it is deleted. */
interface WantedPod {
  readonly pod: SimulatedPod;
  isDeleted: boolean;
  /** Wakes the pod's loop. */
  wake: () => void;
}

/** What the kubelet tells the API server. */
interface PodReports {
  /** The pod has a sandbox. */
  started(pod: SimulatedPod): void;
  /** The pod has no sandbox any more, and can be removed. */
  ended(pod: SimulatedPod): void;
}

/** Has each pod of the API run in one sandbox, and each deleted one in none. */
export class Kubelet {
  readonly #runtime: Runtime;
  readonly #report: PodReports;
  readonly #wanted = new Map<string, WantedPod>();
  #process = new Process("kubelet");

  constructor(runtime: Runtime, report: PodReports) {
    this.#runtime = runtime;
    this.#report = report;
  }

  /** The pods that are not yet as they should be. */
  get unsettled(): number {
    let count = 0;
    for (const { pod, isDeleted } of this.#wanted.values())
      if (isDeleted || !(this.#sandboxes(pod).some(isAlive) || cannotStart(pod))) count += 1;
    return count;
  }

  get pods(): SimulatedPod[] {
    return [...this.#wanted.values()].filter(({ isDeleted }) => !isDeleted).map(({ pod }) => pod);
  }

  create(pod: SimulatedPod): void {
    const wanted: WantedPod = { pod, isDeleted: false, wake: () => undefined };
    this.#wanted.set(pod.uid, wanted);
    world().schedule.at(1000, () => void this.#follow(wanted), this.#process);
  }

  delete(pod: SimulatedPod): void {
    const wanted = this.#wanted.get(pod.uid);
    if (wanted === undefined) return;
    wanted.isDeleted = true;
    wanted.wake();
  }

  /** A pod's sandbox may have died. */
  notice(pod: SimulatedPod): void {
    this.#wanted.get(pod.uid)?.wake();
  }

  /** After a restart of the machine. */
  restart(): void {
    this.#process = new Process("kubelet");
    const { schedule, random } = world();
    for (const wanted of this.#wanted.values()) {
      // Its loop before has ended with the machine.
      wanted.wake = () => undefined;
      const startUs = random.duration(1e6, 20e6);
      schedule.at(startUs, () => void this.#follow(wanted), this.#process);
    }
  }

  get process(): Process {
    return this.#process;
  }

  /** Brings a pod to its state again and again, as the kubelet's pod worker does. */
  async #follow(wanted: WantedPod): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const isSettled = await this.#sync(wanted).catch(() => false);
      const isGone = wanted.isDeleted && this.#sandboxes(wanted.pod).length === 0;
      if (isSettled && isGone) return this.#finish(wanted);
      const pauseUs = world().random.duration(500_000, Math.min(2 ** attempt, 20) * 1e6);
      if (isSettled && !wanted.isDeleted) await this.#change(wanted);
      else await world().schedule.sleep(pauseUs);
    }
  }

  #finish({ pod }: WantedPod): void {
    this.#wanted.delete(pod.uid);
    world().devices.delete(pod.uid);
    this.#report.ended(pod);
  }

  /** @returns whether the pod is as it should be @throws Error when the runtime fails */
  async #sync({ pod, isDeleted }: WantedPod): Promise<boolean> {
    const runtime = this.#runtime;
    const sandboxes = this.#sandboxes(pod);
    if (!isDeleted && sandboxes.some(isAlive)) return true;
    for (const sandbox of sandboxes) await inProcess(runtime.process, () => runtime.stop(sandbox));
    if (isDeleted) return true;
    allocateDevices(pod);
    await inProcess(runtime.process, () => runtime.run(pod));
    this.#report.started(pod);
    return true;
  }

  #sandboxes(pod: SimulatedPod): Sandbox[] {
    return [...this.#runtime.sandboxes.values()].filter((sandbox) => sandbox.pod === pod);
  }

  #change(wanted: WantedPod): Promise<void> {
    const { schedule } = world();
    return new Promise((resolve) => {
      wanted.wake = () => void schedule.at(1000, resolve, this.#process);
      // It may have happened since the last look.
      if (wanted.isDeleted || !this.#sandboxes(wanted.pod).some(isAlive)) wanted.wake();
    });
  }
}

function isAlive(sandbox: Sandbox): boolean {
  return sandbox.state === "ready" && world().kernel.hasNamespaceOf(sandbox);
}

/** Gives a pod the first free devices, if it needs any. @throws Error when there are too few */
function allocateDevices(pod: SimulatedPod): void {
  if (lacksDevices(pod)) throw new Error("too few devices are free");
  const { devices } = world();
  if (!devices.has(pod.uid)) devices.set(pod.uid, freeDevices().slice(0, pod.deviceCount ?? 0));
}

/** Whether it needs devices that others have, or a plugin that never attaches it. */
function cannotStart(pod: SimulatedPod): boolean {
  return (
    lacksDevices(pod) ||
    /\b(mistyped|forbidden|masterless)\b/.test(pod.annotations[networksAnnotation] ?? "")
  );
}

/** Whether other pods have the devices that it needs: nothing but their end helps. */
function lacksDevices({ uid, deviceCount = 0 }: SimulatedPod): boolean {
  return !world().devices.has(uid) && freeDevices().length < deviceCount;
}

function freeDevices(): string[] {
  const taken = new Set([...world().devices.values()].flat());
  return deviceIds.filter((id) => !taken.has(id));
}
