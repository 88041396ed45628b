import { join } from "node:path";
import { startApiServer } from "../support/api-server.ts";
import { differences } from "../support/host-state.ts";
import { nad } from "../support/node/manifests.ts";
import { contenders } from "./contenders/all.ts";
import { type Parts, repair } from "./injector.ts";
import { Gates } from "./lab/gates.ts";
import { type HostState, readHostState } from "./lab/host-state.ts";
import { preparePlace } from "./lab/place.ts";
import { confList, networks, spareNetwork } from "./lab/topology.ts";
import { carryOut } from "./run.ts";
import { parseScenario } from "./scenario.ts";

/** A node that works, and the state that it is in when no pod is attached. */
export interface Node extends Parts {
  readonly reference: HostState;
}

/** What a node is made of: the directory of its compiled fixtures, and Plexus's shim of another release. */
export interface NodeOptions {
  readonly contender: string;
  readonly fixtures: string;
  readonly previousShim: string;
}

/** Makes the namespaces that this process is alone in a node. @throws Error when pods cannot be attached there */
export async function prepareNode({ contender: name, ...builds }: NodeOptions): Promise<Node> {
  const place = await preparePlace(builds.fixtures);
  const api = await startApiServer(join(place.root, "etc"));
  for (const network of [...networks, spareNetwork]) {
    if (network.nad === undefined) continue;
    api.put("network-attachment-definitions", nad(network.nad, confList(network)));
  }
  const contender = await contenders.find((c) => c.name === name)?.make({ place, api, ...builds });
  if (contender === undefined) throw new Error(`there is no contender ${name}`);
  const parts: Parts = { place, api, contender, gates: new Gates(place) };
  await repair(parts);
  return { ...parts, reference: await warmUp(parts) };
}

/** Two runs without a fault: what they leave (tables, a bridge) is there to stay, and nothing else comes. */
async function warmUp(parts: Parts): Promise<HostState> {
  const read = (): Promise<HostState> =>
    readHostState(parts.place, [parts.contender.daemon?.pid ?? 0]);
  const empty = await read();
  const scenario = parseScenario("repaired before DEL; netns kept");
  const first = await carryOut(scenario, 900_001, { ...parts, reference: empty });
  const reference = await read();
  const second = await carryOut(scenario, 900_002, { ...parts, reference });
  const problem = [first.add, second.add].find((add) => add !== "ok");
  if (problem !== undefined) throw new Error(`an ADD without a fault failed: ${problem}`);
  const left = differences(reference, await read());
  if (left.length > 0) throw new Error(`a run without a fault left ${left.join(", ")}`);
  return reference;
}
