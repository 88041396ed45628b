import { type FakeKubelet, listedPod } from "#devices/testing/fake-kubelet.ts";
import { claimObject, sliceObject } from "#devices/testing/resource-objects.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import type { JsonObject } from "#lib/json.ts";

/** An object of a recipe, with what is read of it. */
export type RecipeObject = JsonObject & {
  readonly kind: string;
  readonly metadata: JsonObject & { name: string; annotations?: Record<string, string> };
  readonly spec: JsonObject & {
    containers?: { name: string; resources?: { limits?: Record<string, string> } }[];
    resourceClaims?: { name: string }[];
  };
};

/** Where a recipe's objects go. */
interface Services {
  readonly api: FakeApiServer;
  readonly kubelet: FakeKubelet;
  /** The function that the pod gets. */
  readonly device: string;
}

/** What docs/user/networks.md calls the devices that pods claim. */
const driver = "vf.vendor.example";
const claimedResource = "vendor.example/claimed-vf";

/**
 * Puts definitions and a pod into the API server, with what Kubernetes would add: the pod is on the node and has the
 * function, whether a container requests it as a resource or the pod claims it. Returns the pod's name.
 */
export function putRecipe(objects: readonly RecipeObject[], services: Services): string {
  for (const object of objects.filter(({ kind }) => kind === "NetworkAttachmentDefinition")) {
    services.api.put("network-attachment-definitions", inDefaultNamespace(object));
  }
  const pod = objects.find(({ kind }) => kind === "Pod");
  if (pod === undefined) throw new Error("the recipe has no pod");
  const { name } = pod.metadata;
  const containers = pod.spec.containers ?? [];
  const allocated = containers.map(({ name: container, resources }) => {
    const names = Object.keys(resources?.limits ?? {});
    return [container, Object.fromEntries(names.map((each) => [each, [services.device]]))];
  });
  services.kubelet.pods.push(listedPod(name, Object.fromEntries(allocated)));
  const resourceClaimStatuses = (pod.spec.resourceClaims ?? []).map((claim) => ({
    name: claim.name,
    resourceClaimName: allocateClaim(services, `${name}-${claim.name}`, { uid: uidOf(name) }),
  }));
  services.api.put("pods", {
    ...inDefaultNamespace(pod),
    spec: { ...pod.spec, nodeName: "node-1" },
    status: { resourceClaimStatuses },
  });
  return name;
}

/** The UID of a recipe's pod. */
export function uidOf(name: string): string {
  return `uid-of-${name}`;
}

function inDefaultNamespace(object: RecipeObject): JsonObject {
  const { metadata } = object;
  return { ...object, metadata: { ...metadata, namespace: "default", uid: uidOf(metadata.name) } };
}

/** Makes the claim that Kubernetes makes of a template, and the device that a driver publishes. Returns its name. */
function allocateClaim(
  { api, device }: Services,
  name: string,
  { uid }: { readonly uid: string },
): string {
  const attributes = {
    "k8s.cni.cncf.io/deviceID": { string: device },
    "k8s.cni.cncf.io/resourceName": { string: claimedResource },
  };
  const slice = sliceObject({ driver, devices: [{ name: "vf-1", attributes }] });
  api.put("resourceslices", { ...slice, spec: { ...(slice.spec as object), nodeName: "node-1" } });
  const results = [{ driver, device: "vf-1", request: "vf" }];
  api.put("resourceclaims", claimObject(name, results, { owner: uid, reservedFor: uid }));
  return name;
}
