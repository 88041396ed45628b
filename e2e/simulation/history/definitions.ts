import { heldLease, networkService } from "#endpoints/testing/objects.ts";
import type { ApiServer } from "../api/api-server.ts";
import { conflist, type NetworkName, resources } from "../node/networks.ts";
import type { Scenario } from "./scenario.ts";

/** Creates the definitions of the networks that a scenario names; others would have no effect. */
export function putDefinitions(api: ApiServer, { pods, mischief, service }: Scenario): void {
  if (service !== undefined) putService(api, service);
  const requests = pods.flatMap((pod) => [pod, ...pod.edits]);
  const names = new Set(requests.flatMap(({ networks }) => networks));
  for (const each of mischief) if ("network" in each) names.add(each.network);
  for (const name of names) putDefinition(api, name);
}

/** Pods of a history are never ready. */
function putService(api: ApiServer, network: NetworkName): void {
  const spec = { clusterIP: "None", publishNotReadyAddresses: true, ipFamilies: ["IPv4", "IPv6"] };
  const annotations = { "plexus.dev/network": `default/${network}` };
  api.collection("services").put(networkService("db", { spec, annotations }));
  api.collection("leases").put(heldLease(""));
}

/** Restores the definitions that the mischief has removed or changed. */
export function restoreDefinitions(api: ApiServer, { mischief }: Scenario): void {
  for (const each of mischief) if ("network" in each) putDefinition(api, each.network);
}

const configs = new Map<string, string>();

/** Creates or restores a network's definition, perhaps with the plugins of another one. */
export function putDefinition(api: ApiServer, name: NetworkName, like = name): void {
  const key = `${name} ${like}`;
  const config = configs.get(key) ?? JSON.stringify(conflist(name, like));
  configs.set(key, config);
  const resourceName = resources[name];
  const annotations = resourceName && {
    "k8s.v1.cni.cncf.io/resourceName": resourceName,
    "plexus.dev/each-device": String(name === "rails"),
  };
  api.putNad({ namespace: "default", name, spec: { config }, ...(annotations && { annotations }) });
}
