import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import type { JsonObject } from "#lib/json.ts";

const networksKey = "k8s.v1.cni.cncf.io/networks";
const statusKey = "k8s.v1.cni.cncf.io/network-status";

/** Edits the networks annotation of a pod, which runs from now on. */
export function editNetworks(
  api: FakeApiServer,
  podName: string,
  elements: readonly string[],
): void {
  const { metadata, ...rest } = api.objects("pods").get(`default/${podName}`) as {
    metadata: { annotations: JsonObject };
  };
  const annotations = { ...metadata.annotations, [networksKey]: elements.join(",") };
  const status = { phase: "Running" };
  api.put("pods", { ...rest, status, metadata: { ...metadata, annotations } });
}

/** `network@interface` of each entry of a pod's published status, sorted, without the default network. */
export function shownNetworks(api: FakeApiServer, podName: string): string[] {
  const { metadata } = api.objects("pods").get(`default/${podName}`) as {
    metadata: { annotations: Record<string, string> };
  };
  const entries = JSON.parse(metadata.annotations[statusKey] ?? "[]") as {
    readonly name: string;
    readonly interface: string;
    readonly default?: boolean;
  }[];
  return entries
    .filter((entry) => entry.default !== true)
    .map((entry) => `${entry.name.replace("default/", "")}@${entry.interface}`)
    .toSorted();
}
