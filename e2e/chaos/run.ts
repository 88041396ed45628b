import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { differences } from "../support/host-state.ts";
import { childrenOf, processes } from "../support/processes.ts";
import { poll } from "../support/wait.ts";
import type { Contender, Sandbox } from "./contenders/contender.ts";
import { editPod } from "./edits/pod-edit.ts";
import type { Operation } from "./fault.ts";
import { Injector, type Parts, repair } from "./injector.ts";
import {
  ageTemporaryFiles,
  type HostState,
  readHostState,
  readPods,
  withPods,
} from "./lab/host-state.ts";
import { type RunningCall, startCall } from "./lab/runtime-call.ts";
import { networks } from "./lab/topology.ts";
import type { Scenario } from "./scenario.ts";

/** The result of one run. */
export interface RunResult {
  /** For each fault of the scenario, with that of its edit, whether it came to happen. */
  readonly happened: readonly boolean[];
  /** `ok`, or what the ADD said. */
  readonly add: string;
  /** What each DEL said; the last one is `ok` unless none succeeded. */
  readonly dels: readonly string[];
  /** What is left after the last DEL; empty is what is promised. */
  readonly leaks: readonly string[];
  readonly milliseconds: number;
}

/** What is done beside the calls of a run. */
interface RunHooks {
  beforeAdd?(): Promise<void>;
  /** After an ADD that succeeded, in a scenario with an edit. */
  beforeEdit?(): Promise<void>;
  beforeDel?(): Promise<void>;
  /** After the last DEL, before the node is compared. */
  afterDel?(): Promise<void>;
}

interface RunNode extends Parts, RunHooks {
  readonly reference: HostState;
  /** A process of the harness that runs beside the contender's. */
  readonly harnessPid?: number;
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
  node: RunNode,
): Promise<RunResult> {
  const started = performance.now();
  const run = new Run(scenario, number, node);
  await run.prepare();
  await node.beforeAdd?.();
  const add = await run.call("ADD");
  const unedited = add === "ok" ? await run.edit() : undefined;
  if (scenario.repaired === "before DEL") await repair(node);
  if (scenario.netns === "removed") await run.removeNetns();
  await node.beforeDel?.();
  const dels = [await run.call("DEL")];
  await repair(node);
  for (let n = 1; dels.at(-1) !== "ok" && n < delLimit; n++) {
    await sleep(25 * 2 ** n);
    dels.push(await run.call("DEL", []));
  }
  await node.afterDel?.();
  if (!node.contender.emptiesNetns) await run.removeNetns();
  const leaks = await run.leaks();
  if (unedited !== undefined) leaks.unshift(unedited);
  if (dels.at(-1) !== "ok") leaks.unshift(`DEL never succeeded in ${delLimit} attempts`);
  await run.cleanUp();
  const faults = [...scenario.faults, scenario.edit?.fault].filter((fault) => fault !== undefined);
  const happened = faults.map((fault) => run.happened.has(fault));
  return { happened, add, dels, leaks, milliseconds: performance.now() - started };
}

/** The processes that are meant to run: of its plugins, an agent's sessions have none when nothing is left. */
export async function pidsOf({ daemon, agent }: Contender): Promise<number[]> {
  const own = [daemon?.pid, agent?.pid].filter((pid) => pid !== undefined);
  const sessions = agent?.pid === undefined ? [] : await childrenOf(agent.pid);
  return [...own, ...sessions];
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

/** Makes a pod's network namespace, and the pod, which asks for these networks. */
export async function addPod(
  { api }: Parts,
  { podName: name, podUid: uid }: Sandbox,
  wanted: readonly string[],
): Promise<void> {
  await execa("ip", ["netns", "add", name]);
  const annotations = { "k8s.v1.cni.cncf.io/networks": wanted.join(",") };
  api.put("pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", uid, annotations },
    spec: { nodeName: "chaos", containers: [] },
    status: { phase: "Pending" },
  });
}

/** One pod, and the calls that a scenario makes for it. */
class Run {
  /** The faults that came to happen. */
  readonly happened = new Set<Scenario["faults"][number]>();
  readonly #scenario: Scenario;
  readonly #node: RunNode;
  readonly #sandbox: Sandbox;
  #hasNetns = true;
  /** The pod's namespace before the ADD. */
  #untouched: HostState = {};

  constructor(scenario: Scenario, number: number, node: RunNode) {
    this.#scenario = scenario;
    this.#node = node;
    this.#sandbox = sandboxOf(number);
  }

  async prepare(): Promise<void> {
    const wanted = networks.flatMap(({ nad }) => nad ?? []);
    await addPod(this.#node, this.#sandbox, wanted);
    await execa("nsenter", [`--net=${this.#sandbox.netns}`, "sh", "-ec", preparePod]);
    this.#untouched = await readPods(this.#node.place);
  }

  /** One call with the scenario's fault for it; later DELs have none. Returns what it said. */
  async call(operation: Operation, faults = this.#scenario.faults): Promise<string> {
    const fault = faults.find((f) => f.operation === operation);
    const injector = fault && new Injector(fault, this.#node, this.#sandbox);
    const isArmed = await injector?.arm();
    const call = this.#start(operation, fault?.action === "previous-release");
    const [words, isDone] = await Promise.all([
      call.outcome,
      isArmed === true || injector?.during(call),
    ]);
    if (fault && (isDone === true || (await injector?.after()) === true)) this.happened.add(fault);
    return words;
  }

  /** Edits the pod's annotation, if the scenario does. Returns why the edit was not completed. */
  async edit(): Promise<string | undefined> {
    const { edit, repaired } = this.#scenario;
    if (edit === undefined || this.#node.contender.agent === undefined) return undefined;
    await this.#node.beforeEdit?.();
    const awaited = repaired === "before DEL";
    const { happened, problem } = await editPod(this.#node, this.#sandbox, {
      ...{ edit, awaited },
      repair: () => this.#repairForEdit(),
    });
    if (edit.fault !== undefined && happened) this.happened.add(edit.fault);
    return problem;
  }

  /** plexusd learns from a later call that the runtime looks for plugins elsewhere, and its DEL will. */
  async #repairForEdit(): Promise<void> {
    const { contender, gates } = this.#node;
    await repair(this.#node);
    if (!gates.haveMoved) return;
    const options = { cniPath: [gates.dir], previousRelease: false, standalone: false };
    const { program, env, stdin } = contender.command("ADD", this.#sandbox, options);
    const status = {
      ...{ program, env: { ...env, CNI_COMMAND: "STATUS" } },
      stdin: JSON.stringify({ ...JSON.parse(stdin), cniVersion: "1.1.0" }),
    };
    // If it fails, the edit does not complete.
    await startCall(status, faultlessLimitMs).outcome;
  }

  #start(operation: Operation, previousRelease: boolean): RunningCall {
    const { contender, gates } = this.#node;
    const { faults } = this.#scenario;
    const command = contender.command(operation, this.#sandbox, {
      cniPath: [gates.dir],
      previousRelease,
      standalone: faults.some((f) => f.target === "standalone"),
    });
    return startCall(command, faults.length > 0 ? callLimitMs : faultlessLimitMs);
  }

  async removeNetns(): Promise<void> {
    if (this.#hasNetns) await execa("ip", ["netns", "del", this.#sandbox.podName]);
    this.#hasNetns = false;
  }

  /**
   * What is left. Nothing counts that a daemon only holds on to, as Multus's does with namespaces, or that plexusd was
   * writing when it was killed, and the next one removes later.
   */
  async leaks(): Promise<string[]> {
    const { contender, place } = this.#node;
    const { daemon, emptiesNetns } = contender;
    const found = await this.#differences(emptiesNetns ? quietMs : settleMs);
    const isForNext = emptiesNetns ? this.#isKilled && (await ageTemporaryFiles(place)) : true;
    if (found.length === 0 || !isForNext || daemon === undefined) return found;
    await daemon.kill();
    await daemon.start();
    return await this.#differences(settleMs);
  }

  get #isKilled(): boolean {
    const { faults, edit } = this.#scenario;
    return [...faults, edit?.fault].some(
      (fault) => fault?.target === "plexusd" && fault.action === "kill",
    );
  }

  /** What is there that was not before; what is about to end gets so long to do so. */
  async #differences(settledMs: number): Promise<string[]> {
    const { place, contender, reference, harnessPid = 0 } = this.#node;
    const expected = this.#hasNetns ? withPods(reference, this.#untouched) : reference;
    const wasStopped = this.#scenario.faults.some(
      ({ target, action }) => target === "plexusd" && action === "stop",
    );
    if (wasStopped) await sleep(resumedMs);
    const quiet = performance.now() + settledMs;
    let found: string[] = [];
    const isSettled = async (): Promise<boolean> => {
      const known = [...(await pidsOf(contender)), harnessPid];
      found = differences(expected, await readHostState(place, known));
      const isOver = processes().every(({ pid }) => known.includes(pid));
      return found.length === 0 || (isOver && performance.now() > quiet);
    };
    await poll(isSettled, { timeoutMs: settleMs });
    return found;
  }

  async cleanUp(): Promise<void> {
    await this.#node.contender.agent?.kill();
    await this.removeNetns();
    await this.#node.gates.restoreAll();
    this.#node.api.delete("pods", `default/${this.#sandbox.podName}`);
  }
}
