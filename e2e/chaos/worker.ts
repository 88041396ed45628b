import { contenders } from "./contenders/all.ts";
import type { Parts } from "./injector.ts";
import { repair } from "./injector.ts";
import { Gates } from "./lab/gates.ts";
import { compareHostStates, readHostState } from "./lab/host-state.ts";
import { KubeApi } from "./lab/kube-api.ts";
import { preparePlace } from "./lab/place.ts";
import { confList, networks } from "./lab/topology.ts";
import { carryOut, type RunResult } from "./run.ts";
import { parseScenario } from "./scenario.ts";

/** What a worker is asked to do. */
export interface Task {
  readonly number: number;
  readonly scenario: string;
}

/** What it answers. */
export type WorkerMessage =
  | { readonly kind: "ready" }
  | { readonly kind: "result"; readonly number: number; readonly result: RunResult }
  | { readonly kind: "failed"; readonly problem: string };

/** Runs scenarios that come from the parent process, on a node of its own; see pool.ts. */
async function main(): Promise<void> {
  const [, , name, gate = "", previousShim = ""] = process.argv;
  const place = await preparePlace(gate);
  const api = new KubeApi();
  await api.listen();
  for (const network of networks) {
    if (network.nad === undefined) continue;
    api.put("network-attachment-definitions", {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: network.nad, namespace: "default" },
      spec: { config: JSON.stringify(confList(network)) },
    });
  }
  const contender = contenders.find((c) => c.name === name)?.make({ place, api, previousShim });
  if (contender === undefined) throw new Error(`there is no contender ${name}`);
  const parts: Parts = { place, api, contender, gates: new Gates(place) };
  await repair(parts);
  const reference = await warmUp(parts);
  process.on("message", (task: Task) => {
    carryOut(parseScenario(task.scenario), task.number, { ...parts, reference }).then(
      (result) => answer({ kind: "result", number: task.number, result }),
      fail,
    );
  });
  answer({ kind: "ready" });
}

/** Two runs without a fault: what they leave (tables, a bridge) is there to stay, and nothing else comes. */
async function warmUp(parts: Parts): ReturnType<typeof readHostState> {
  const known = [parts.contender.daemon?.pid ?? 0];
  const empty = await readHostState(parts.place, known);
  const scenario = parseScenario("repaired before DEL; netns kept");
  const first = await carryOut(scenario, 900_001, { ...parts, reference: empty });
  const reference = await readHostState(parts.place, known);
  const second = await carryOut(scenario, 900_002, { ...parts, reference });
  const problem = [first.add, second.add].find((add) => add !== "ok");
  if (problem !== undefined) throw new Error(`an ADD without a fault failed: ${problem}`);
  const left = compareHostStates(reference, await readHostState(parts.place, known));
  if (left.length > 0) throw new Error(`a run without a fault left ${left.join(", ")}`);
  return reference;
}

function answer(message: WorkerMessage): void {
  process.send?.(message);
}

function fail(error: unknown): void {
  answer({ kind: "failed", problem: error instanceof Error ? (error.stack ?? "") : String(error) });
}

main().catch(fail);
process.on("disconnect", () => process.exit(0));
