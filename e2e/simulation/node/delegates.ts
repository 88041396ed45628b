import { constants } from "node:os";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { DelegateBehaviour, DelegateFault } from "../world/faults.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import type { PluginWork } from "./plugin/call.ts";
import { workOf } from "./plugins.ts";

/** How a delegate ends by itself: what it prints, and its exit status or signal. */
type Ending = Pick<DelegateOutcome, "outcome" | "code" | "stdout">;

/** Until a shim notices that a delegate has ended, in microseconds. */
const [noticeMinUs, noticeMaxUs] = [20, 200];

/** Codes that the reference plugins fail with, as far as they use any. */
const failureCodes = [CniErrorCode.IoFailure, CniErrorCode.TryAgainLater, CniErrorCode.Internal];

/** containerd ignores a failed DEL that says the second or the third. */
const reasons = ["resource busy", "link not found", "no such file or directory"];

/**
 * Runs a plugin as a process group. `ended` resolves in the process that calls this when the plugin
 * has ended by itself; never if the group is killed, or hangs. A child that the plugin leaves
 * behind is a separate process, which `onChild` gets. It prints nothing.
 */
export function startDelegate(
  call: DelegateCall,
  group: Process,
  onChild: (child: Process) => void,
): { readonly ended: Promise<DelegateOutcome> } {
  const { schedule, random, faults, kernel, note } = world();
  const caller = schedule.current;
  const begunUs = schedule.nowUs;
  const fault = faults.delegate(call);
  note(() => `${nameOf(call)} starts: ${fault.behaviour}, ${fault.durationUs} us`);
  const ended = new Promise<DelegateOutcome>((resolve) => {
    const tell = (ending: Ending): void => {
      const message = ending.outcome === "signaled" ? `killed by signal ${ending.code}` : "";
      const noticeUs = random.duration(noticeMinUs, noticeMaxUs);
      const elapsedUs = schedule.nowUs + noticeUs - begunUs;
      schedule.at(noticeUs, () => resolve({ ...ending, stderr: "", message, elapsedUs }), caller);
    };
    const opened = kernel.ownerAt(call.env.CNI_NETNS ?? "");
    behave(new RunningPlugin({ call, opened, process: group, tell }), fault, onChild);
  });
  return { ended };
}

/** Does what the history wants of the delegate. */
function behave(
  plugin: RunningPlugin,
  { behaviour, durationUs }: DelegateFault,
  onChild: (child: Process) => void,
): void {
  const { end } = plugin;
  const works = (endWith: (own: Ending) => void): void => plugin.work(durationUs, endWith);
  const behaviours: Readonly<Record<DelegateBehaviour, () => void>> = {
    works: () => works(end),
    "fails before its work": () =>
      plugin.wait(durationUs, () => end(simulatedFailure(plugin.call))),
    "fails between": () => plugin.workInPart(durationUs, () => end(simulatedFailure(plugin.call))),
    "fails after its work": () => works(() => end(simulatedFailure(plugin.call))),
    "crashes before its work": () => plugin.wait(durationUs, () => end(exited(2, ""))),
    "crashes after its work": () => works(() => end(exited(2, ""))),
    "dies before its work": () => plugin.wait(durationUs, () => end(killed)),
    "dies after its work": () => works(() => end(killed)),
    "hangs before its work": () => undefined,
    "hangs after its work": () => works(() => undefined),
    "says nothing": () => works((own) => end({ ...own, stdout: "" })),
    "says nonsense": () => works((own) => end({ ...own, stdout: '{"cniVersion": ' })),
    "leaves a child": () => leaveChild(plugin, durationUs, onChild),
    "hangs with a child": () => hangWithChild(plugin, onChild),
  };
  behaviours[behaviour]();
}

function hangWithChild({ call, opened }: RunningPlugin, onChild: (child: Process) => void): void {
  const { schedule, random } = world();
  const child = new Process(`child of ${call.type}`);
  onChild(child);
  const begin = (): void => {
    const end = (): void => schedule.kill(child);
    if (call.env.CNI_COMMAND === "ADD") {
      const inChild = new RunningPlugin({ call, opened, process: child, tell: end });
      inChild.work(1000, inChild.end);
    } else end();
  };
  schedule.at(random.duration(1e6, 200e6), begin, child);
}

/** In an ADD the child does the work. A DEL that succeeds has been done, and the child only stays. */
function leaveChild(
  plugin: RunningPlugin,
  durationUs: number,
  onChild: (child: Process) => void,
): void {
  const { call, opened, end } = plugin;
  const { schedule, random } = world();
  const child = new Process(`child of ${call.type}`);
  const endChild = (): void => schedule.kill(child);
  if (call.env.CNI_COMMAND !== "ADD") {
    onChild(child);
    schedule.at(durationUs + random.duration(1e6, 100e6), endChild, child);
    plugin.work(durationUs, end);
    return;
  }
  plugin.wait(random.duration(100, 1000), () => {
    onChild(child);
    const inChild = new RunningPlugin({ call, opened, process: child, tell: endChild });
    inChild.work(durationUs, inChild.end);
    end(exited(0, ""));
  });
}

/** A process that does a plugin's work. What it does ends when the process is killed. */
class RunningPlugin {
  readonly call: DelegateCall;
  /** Whose namespace it has opened. */
  readonly opened: string | undefined;
  readonly #process: Process;
  readonly #tell: (ending: Ending) => void;
  #hasEnded = false;

  constructor(options: {
    readonly call: DelegateCall;
    readonly opened: string | undefined;
    readonly process: Process;
    readonly tell: (ending: Ending) => void;
  }) {
    this.call = options.call;
    this.opened = options.opened;
    this.#process = options.process;
    this.#tell = options.tell;
    world().observer.delegateStarted(this.call, this.#process);
    this.#process.onEnd(() => this.#noteEnd("killed"));
  }

  readonly end = (ending: Ending): void => {
    this.#noteEnd(`${ending.outcome} ${ending.code}`);
    this.#tell(ending);
  };

  wait(delayUs: number, run: () => void): void {
    world().schedule.at(delayUs, run, this.#process);
  }

  /** Does all work, in steps at random times, and then ends in the plugin's way or another one. */
  work(durationUs: number, endWith: (own: Ending) => void): void {
    const { random } = world();
    const steps = workOf(this.call, this.opened);
    let leftUs = durationUs;
    const next = (): void => {
      const own = this.#step(steps);
      if (!this.#process.isAlive) return;
      if (own === undefined) pause();
      else this.wait(leftUs, () => (own.code === 0 ? endWith(own) : this.end(own)));
    };
    const pause = (): void => {
      const pauseUs = random.next() * leftUs;
      leftUs -= pauseUs;
      this.wait(pauseUs, next);
    };
    pause();
  }

  /** Does the first step only. */
  workInPart(durationUs: number, end: () => void): void {
    const steps = workOf(this.call, this.opened);
    const firstUs = world().random.next() * durationUs;
    this.wait(firstUs, () => {
      this.#step(steps);
      this.wait(durationUs - firstUs, end);
    });
  }

  /** @returns how the plugin ends, unless more is to be done */
  #step(steps: PluginWork): Ending | undefined {
    try {
      const { done, value } = steps.next();
      if (done !== true) return undefined;
      return exited(0, value === undefined ? "" : JSON.stringify(value));
    } catch (error) {
      // The disk kills the process in place of a change.
      if (!this.#process.isAlive) return undefined;
      if (error instanceof CniError) return failure(error.code, error.message);
      if (error instanceof Error && "errno" in error)
        return failure(CniErrorCode.Internal, errorMessage(error));
      throw error;
    }
  }

  #noteEnd(how: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    world().note(() => `${nameOf(this.call)}: ${how}`);
    world().observer.delegateEnded(this.call, this.#process);
  }
}

function exited(code: number, stdout: string): Ending {
  return { outcome: "exited", code, stdout };
}

function failure(code: number, msg: string): Ending {
  return exited(1, JSON.stringify({ cniVersion: "1.0.0", code, msg }));
}

const killed: Ending = { outcome: "signaled", code: constants.signals.SIGKILL, stdout: "" };

function simulatedFailure(call: DelegateCall): Ending {
  // Not the same text for ADD and DEL, which the engine takes for a refusal of the configuration.
  const text = `${call.env.CNI_COMMAND} cannot use the device: ${world().random.pick(reasons)}`;
  return failure(world().random.pick(failureCodes), text);
}

function nameOf({ type, env }: DelegateCall): string {
  return `${type} ${env.CNI_COMMAND} ${env.CNI_CONTAINERID} ${env.CNI_IFNAME}`.trimEnd();
}
