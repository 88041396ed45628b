import { poll } from "../../support/wait.ts";
import type { Sandbox } from "../contenders/contender.ts";
import { Injector, type Parts } from "../injector.ts";
import type { RunningCall } from "../lab/runtime-call.ts";
import { networks, spareNetwork } from "../lab/topology.ts";
import type { Edit } from "./edit.ts";
import { editNetworks, shownNetworks } from "./pod-networks.ts";

/** Enough for an edit that nothing hinders; one that something hinders need not complete. */
const completionMs = 30_000;
/** How long a fault's moment is waited for: the node may be too broken for the edit to begin. */
const reachedMs = 5000;

/** How an edit ended. */
export interface EditResult {
  /** Whether its fault came to happen. */
  readonly happened: boolean;
  /** Why the pod has not got the networks of its annotation, although everything was repaired. */
  readonly problem?: string;
}

/**
 * Edits the annotation of a running pod, with the edit's fault.
 * @param awaited whether everything is repaired then, and the pod gets what its annotation requests
 * @param repair repairs everything
 */
export async function editPod(
  parts: Parts,
  sandbox: Sandbox,
  {
    edit,
    awaited,
    repair,
  }: { readonly edit: Edit; readonly awaited: boolean; readonly repair: () => Promise<void> },
): Promise<EditResult> {
  const { gates, contender } = parts;
  if (awaited) await repair();
  await contender.agent?.start();
  // After an outage plexusd waits before it watches again, and this API server repeats no events.
  await poll(() => parts.api.watching("pods") > 0, {
    timeoutMs: awaited ? completionMs : reachedMs,
  });
  if (edit.change === "plug") {
    const without = wantedBy({ ...edit, change: "unplug" });
    annotate(parts, sandbox, without);
    await poll(() => hasNetworks(parts, sandbox, without), { timeoutMs: reachedMs });
  }
  await gates.clear();
  const injector = edit.fault && new Injector(edit.fault, parts, sandbox);
  await injector?.arm();
  const wanted = wantedBy(edit);
  annotate(parts, sandbox, wanted);
  const happened = (await injector?.during(untilReached())) ?? true;
  if (!awaited) return { happened };
  await repair();
  await contender.agent?.start();
  const isDone = await poll(() => hasNetworks(parts, sandbox, wanted), { timeoutMs: completionMs });
  if (isDone === true) return { happened };
  const has = shownNetworks(parts.api, sandbox.podName);
  return { happened, problem: `the pod has ${has} instead of ${wanted}` };
}

/** Stands for a call in which the fault happens: no process of a runtime waits for an edit. */
function untilReached(): RunningCall {
  const started = performance.now();
  const hasEnded = (): boolean => performance.now() - started > reachedMs;
  return { pid: 0, outcome: Promise.resolve("ok"), hasEnded };
}

/** `network@interface` of each element. */
function wantedBy({ change, ifName }: Edit): string[] {
  return networks.flatMap(({ nad, ifName: own }) => {
    if (nad === undefined) return [];
    if (own !== ifName || change === "plug") return `${nad}@${own}`;
    return change === "unplug" ? [] : `${spareNetwork.nad}@${own}`;
  });
}

/** Only what is replaced gets an explicit interface: the other elements stay as they were. */
function annotate({ api }: Parts, { podName }: Sandbox, wanted: readonly string[]): void {
  const isSpare = (element: string): boolean => element.startsWith(`${spareNetwork.nad}@`);
  const elements = wanted.map((each) => (isSpare(each) ? each : each.replace(/@.*/, "")));
  editNetworks(api, podName, elements);
}

function hasNetworks({ api }: Parts, { podName }: Sandbox, wanted: readonly string[]): boolean {
  return shownNetworks(api, podName).join() === wanted.toSorted().join();
}
