import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { differences } from "../support/host-state.ts";
import { processes } from "../support/processes.ts";
import { poll } from "../support/wait.ts";
import type { CallOptions, Sandbox } from "./contenders/contender.ts";
import type { Fault, Operation } from "./fault.ts";
import { Injector, type Parts, repair } from "./injector.ts";
import { type HostState, readHostState, readPods, withPods } from "./lab/host-state.ts";
import { type CallOutcome, problemOf, startCall } from "./lab/runtime-call.ts";
import { networks } from "./lab/topology.ts";
import type { Scenario } from "./scenario.ts";

/** The result of one run. */
export interface RunResult {
  /** For each fault of the scenario, whether it came to happen. */
  readonly happened: readonly boolean[];
  /** `ok`, or what the ADD said. */
  readonly add: string;
  /** What each DEL said; the last one is `ok` unless none succeeded. */
  readonly dels: readonly string[];
  /** What is left after the last DEL; empty is what is promised. */
  readonly leaks: readonly string[];
  readonly milliseconds: number;
}

/** A runtime waits for minutes: enough for the limits that the contender itself has, also on a busy machine. */
const callLimitMs = 6000;
/** Without a fault nothing is waited for but the machine. */
const faultlessLimitMs = 60_000;
const delLimit = 6;
const settleMs = 1500;
/** Enough when nothing runs any more, unless a namespace was removed just now: the kernel empties it later. */
const quietMs = 200;
/** A stopped daemon gets this long to continue its work, which must not leave anything. */
const resumedMs = 150;

/** Without duplicate address detection, which takes a second, IPv6 addresses are usable at once. */
const preparePod = "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up";

/** Carries out a scenario on a node in the state `reference`, and compares what it leaves. */
export async function carryOut(
  scenario: Scenario,
  number: number,
  node: Parts & { readonly reference: HostState },
): Promise<RunResult> {
  const started = performance.now();
  const run = new Run(scenario, number, node);
  await run.prepare();
  const add = await run.call("ADD");
  if (scenario.repaired === "before DEL") await repair(node);
  if (scenario.netns === "removed") await run.removeNetns();
  const dels = [await run.call("DEL")];
  await repair(node);
  for (let n = 1; dels.at(-1)?.exitCode !== 0 && n < delLimit; n++) {
    await sleep(25 * 2 ** n);
    dels.push(await run.call("DEL", []));
  }
  if (!node.contender.emptiesNetns) await run.removeNetns();
  const leaks = await run.leaks();
  if (dels.at(-1)?.exitCode !== 0) leaks.unshift(`DEL never succeeded in ${delLimit} attempts`);
  await run.cleanUp();
  const words = (outcome: CallOutcome): string =>
    outcome.exitCode === 0 ? "ok" : problemOf(outcome);
  return {
    happened: run.happened,
    add: words(add),
    dels: dels.map(words),
    leaks,
    milliseconds: performance.now() - started,
  };
}

/** The pod of that number. */
export function sandboxOf(number: number): Sandbox {
  return {
    podName: `pod-${number}`,
    podUid: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
    containerId: `chaos${number}`,
    netns: `/run/netns/pod-${number}`,
  };
}

/** One pod, and the calls that a scenario makes for it. */
export class Run {
  readonly happened: boolean[];
  readonly scenario: Scenario;
  readonly #node: Parts & { readonly reference: HostState };
  readonly #sandbox: Sandbox;
  #hasNetns = true;
  /** The pod's namespace before the ADD. */
  #untouched: HostState = {};

  constructor(scenario: Scenario, number: number, node: Parts & { readonly reference: HostState }) {
    this.scenario = scenario;
    this.#node = node;
    this.happened = scenario.faults.map(() => false);
    this.#sandbox = sandboxOf(number);
  }

  async prepare(): Promise<void> {
    const { podName, podUid, netns } = this.#sandbox;
    await execa("ip", ["netns", "add", podName]);
    await execa("nsenter", [`--net=${netns}`, "sh", "-ec", preparePod]);
    this.#untouched = await readPods(this.#node.place);
    const wanted = networks.flatMap(({ nad }) => nad ?? []).join(",");
    this.#node.api.put("pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: podName,
        namespace: "default",
        uid: podUid,
        annotations: { "k8s.v1.cni.cncf.io/networks": wanted },
      },
      spec: { nodeName: "chaos", containers: [] },
      status: { phase: "Pending" },
    });
  }

  /** One call with the scenario's fault for it; later DELs have none. */
  async call(operation: Operation, faults = this.scenario.faults): Promise<CallOutcome> {
    const { contender } = this.#node;
    const fault = faults.find((f) => f.operation === operation);
    const injector = fault && new Injector(fault, this.#node, this.#sandbox);
    const isArmed = (await injector?.arm()) ?? true;
    const command = contender.command(operation, this.#sandbox, this.#options(fault));
    const call = startCall(
      command,
      this.scenario.faults.length > 0 ? callLimitMs : faultlessLimitMs,
    );
    const [outcome, isDone] = await Promise.all([
      call.outcome,
      isArmed ? true : injector?.during(call),
    ]);
    if (isDone === true || (await injector?.after()) === true) this.#markHappened(fault);
    return outcome;
  }

  async removeNetns(): Promise<void> {
    if (this.#hasNetns) await execa("ip", ["netns", "del", this.#sandbox.podName]);
    this.#hasNetns = false;
  }

  /** What is left. Nothing counts that a daemon only holds on to, as Multus's does with namespaces. */
  async leaks(): Promise<string[]> {
    const found = await this.#differences();
    const { daemon, emptiesNetns } = this.#node.contender;
    if (found.length === 0 || emptiesNetns || daemon === undefined) return found;
    await daemon.kill();
    await daemon.start();
    return await this.#differences();
  }

  /** What is there that was not before; what is about to end gets a moment to do so. */
  async #differences(): Promise<string[]> {
    const { place, contender, reference } = this.#node;
    const expected = this.#hasNetns ? withPods(reference, this.#untouched) : reference;
    const wasStopped = this.scenario.faults.some(
      ({ target, action }) => target === "plexusd" && action === "stop",
    );
    if (wasStopped) await sleep(resumedMs);
    const quiet = performance.now() + (contender.emptiesNetns ? quietMs : settleMs);
    let found: string[] = [];
    const isSettled = async (): Promise<boolean> => {
      const known = [contender.daemon?.pid ?? 0];
      found = differences(expected, await readHostState(place, known));
      const isOver = processes().every(({ pid }) => known.includes(pid));
      return found.length === 0 || (isOver && performance.now() > quiet);
    };
    await poll(isSettled, { timeoutMs: settleMs });
    return found;
  }

  async cleanUp(): Promise<void> {
    await this.removeNetns();
    await this.#node.gates.restoreAll();
    this.#node.api.delete("pods", `default/${this.#sandbox.podName}`);
  }

  #options(fault: Fault | undefined): CallOptions {
    return {
      cniPath: [this.#node.gates.dir],
      previousRelease: fault?.action === "previous-release",
      standalone: this.scenario.faults.some((f) => f.target === "standalone"),
    };
  }

  #markHappened(fault: Fault | undefined): void {
    this.scenario.faults.forEach((each, n) => {
      if (each === fault) this.happened[n] = true;
    });
  }
}
