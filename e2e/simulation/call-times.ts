import type { CallEnd } from "./node/runtime.ts";
import { world } from "./world/world.ts";

/** How long a DEL, STATUS or GC may work on a leftover. */
const leftoverUs = 5e6;
/** How long a GC may exclude others: by itself, and until its shim gives up a plexusd that is stopped. */
const [garbageUs, silentGarbageUs] = [10e6, 30e6];
/** For what else a call does: undisturbed, and with its waits for plexusd, the API and leftover processes. */
const [slackUs, troubleUs] = [5e6, 21e6];
/**
 * How long a call takes each time that plexusd is stopped: its shim waits for plexusd, perhaps after
 * another call of the same sandbox that does.
 */
const silenceUs = 60e6;
/** Without room for its lock file, a call locks the node. Other calls give up after this time. */
const nodeLockUs = 60e6;
/** How long each call waits for what a plugin has left running: one may have come after others of its sandbox. */
const leftProcessUs = 10e6;
/** The kubelet waits two minutes for a DEL. */
const delUs = 119e6;

/** A call that takes too long. */
interface LateCall {
  readonly property: "answered" | "independent";
  readonly details: string;
}

/** Judges how long the calls of a history take. */
export class CallTimes {
  readonly #faultUs: number;
  readonly #garbageUs: number;
  #collecting = 0;
  readonly #ended: (Pick<CallEnd, "command" | "sandbox" | "startedUs"> & { endedUs: number })[] =
    [];
  #disturbedUs = Number.NEGATIVE_INFINITY;

  /** @param faults how often plexusd may be stopped, and whether a lock may lack room */
  constructor(faults: { readonly stops: number; readonly lacksRoom: boolean }) {
    const { stops, lacksRoom } = faults;
    this.#faultUs = troubleUs + stops * silenceUs + (lacksRoom ? nodeLockUs : 0);
    this.#garbageUs = stops > 0 ? silentGarbageUs : garbageUs;
  }

  /** Something may delay calls that begin before so many microseconds have passed. */
  disturb(durationUs: number): void {
    this.#disturbedUs = Math.max(this.#disturbedUs, world().schedule.nowUs + durationUs);
  }

  started(command: string): void {
    if (command === "GC") this.#collecting += 1;
  }

  ended({ command, sandbox, startedUs }: CallEnd): void {
    if (command === "GC") this.#collecting -= 1;
    this.#ended.push({ command, sandbox, startedUs, endedUs: world().schedule.nowUs });
  }

  /** @param delegateUs how long delegates of the call's sandbox have run */
  problem(end: CallEnd, delegateUs: number): LateCall | undefined {
    const { command, sandbox, startedUs, isTimedOut } = end;
    const isDisturbed = startedUs <= this.#disturbedUs;
    const tookUs = world().schedule.nowUs - startedUs;
    const mustHaveEnded = !isDisturbed && command === "DEL" && tookUs > delUs;
    const ownUs = tookUs - delegateUs;
    const property = isTimedOut ? "answered" : "independent";
    const took = `${command} of ${sandbox?.id} took ${Math.round(tookUs / 1000)} ms`;
    if (isTimedOut && mustHaveEnded) return { property, details: took };
    if (ownUs <= this.#limitUs(end, isDisturbed)) return undefined;
    return { property, details: `${took}, its delegates ${Math.round(delegateUs / 1000)} ms` };
  }

  #limitUs({ command, sandbox, startedUs }: CallEnd, isDisturbed: boolean): number {
    const meanwhile = this.#ended.filter(({ endedUs }) => endedUs > startedUs);
    const collections = meanwhile.filter((each) => each.command === "GC").length;
    const others = meanwhile.filter(
      (each) => each.startedUs !== startedUs && each.sandbox?.id === (sandbox?.id ?? ""),
    );
    return (
      (isDisturbed ? this.#faultUs + others.length * leftProcessUs : slackUs) +
      (this.#collecting + collections) * this.#garbageUs +
      (command === "ADD" ? 0 : leftoverUs)
    );
  }
}
