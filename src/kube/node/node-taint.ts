import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { isJsonObject, type Json } from "#lib/json.ts";

const timeoutMs = 10_000;

/**
 * Removes all taints with this key from a Node. @returns whether there was one
 * @throws ApiError, also when another writer changed the list in between
 */
export async function removeTaint(
  client: ApiClient,
  { nodeName, key }: { readonly nodeName: string; readonly key: string },
): Promise<boolean> {
  const path = apiPaths.node(nodeName);
  const taints = taintsOf(await client.json({ path, timeoutMs }));
  const kept = taints.filter((taint) => !isJsonObject(taint) || taint.key !== key);
  if (kept.length === taints.length) return false;
  const body = [
    { op: "test", path: "/spec/taints", value: taints },
    { op: "replace", path: "/spec/taints", value: kept },
  ];
  const contentType = "application/json-patch+json";
  const query = { fieldManager: "plexus" };
  await client.json({ method: "PATCH", path, query, contentType, body, timeoutMs });
  return true;
}

function taintsOf(node: Json): readonly Json[] {
  const spec = isJsonObject(node) && isJsonObject(node.spec) ? node.spec : {};
  return Array.isArray(spec.taints) ? spec.taints : [];
}
