import { expect } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import type { KubeAdapter } from "./adapter.ts";
import { kubeTest as test } from "./testing/kube-test.ts";
import { isGet, isList } from "./testing/requests.ts";

const options = { nodeName: "node-1", signal: new AbortController().signal };
const unavailable = { name: "ResourceApiUnavailableError" };
/** The answer of the real API server for an unknown group. */
const noGroup = { answer: 404, body: "404 page not found\n" } as const;

function slice(name: string, spec: JsonObject): JsonObject {
  return { metadata: { name }, spec: { driver: "nic.example", ...spec } };
}

/** The names of the driver's slices. */
async function listed({ resourceApi }: KubeAdapter): Promise<unknown[]> {
  const slices: JsonObject[] = [];
  for await (const each of resourceApi.listSlices("nic.example", options)) slices.push(each);
  return slices.map(({ metadata }) => (metadata as JsonObject).name);
}

test("getClaim() reads one claim; nothing is read before [D-25] [D-29]", async ({ api, kube }) => {
  expect(api.seen.filter(({ path }) => path.includes("resource.k8s.io"))).toEqual([]);
  const claim = { metadata: { namespace: "default", name: "nic" }, status: {} };
  api.put("resourceclaims", claim);
  const ref = { namespace: "default", name: "nic" };
  expect(await kube.resourceApi.getClaim(ref, options)).toMatchObject(claim);
  expect(api.seen.at(-1)?.path).toBe(
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/nic",
  );
  expect(await kube.resourceApi.getClaim({ ...ref, name: "gone" }, options)).toBeUndefined();
});

test("listSlices() reads this node's and all nodes' slices [D-26]", async ({ api, kube }) => {
  api.pageSize = 1;
  api.put("resourceslices", slice("a", { nodeName: "node-1" }));
  api.put("resourceslices", slice("b", { nodeName: "node-1" }));
  api.put("resourceslices", slice("for-all", { allNodes: true }));
  api.put("resourceslices", slice("of-another-node", { nodeName: "node-2" }));
  api.put(
    "resourceslices",
    slice("of-another-driver", { driver: "gpu.example", nodeName: "node-1" }),
  );
  expect(await listed(kube)).toEqual(["a", "b", "for-all"]);
  const lists = api.seen.filter(isList("resourceslices"));
  expect(lists.map(({ query }) => [query.get("limit"), query.get("continue")])).toEqual([
    ["100", null],
    ["100", expect.stringMatching(/:1$/)],
    ["100", null],
  ]);
});

test("an unavailable API group is distinct from a missing claim [D-29]", async ({ api, kube }) => {
  const ref = { namespace: "default", name: "nic" };
  api.absent.add("resourceclaims");
  api.script({ when: isGet("v1"), ...noGroup });
  await expect(kube.resourceApi.getClaim(ref, options)).rejects.toMatchObject(unavailable);
  api.script({ when: isList("resourceslices"), ...noGroup });
  await expect(listed(kube)).rejects.toMatchObject(unavailable);
  api.script({ when: isGet("nic"), answer: 403 });
  await expect(kube.resourceApi.getClaim(ref, options)).rejects.toMatchObject(unavailable);
  api.script({ when: isList("resourceslices"), answer: 403 });
  await expect(listed(kube)).rejects.toMatchObject(unavailable);
});

test("listSlices() fails with code 11 if the API server hangs", async ({ api, kube }) => {
  api.script({ when: isList("resourceslices"), answer: "hang", times: 10 });
  await expect(listed(kube)).rejects.toMatchObject({
    code: 11,
    message: expect.stringContaining("the ResourceSlices of driver nic.example"),
  });
});
