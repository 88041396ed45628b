import type { ApiRequest } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { isJsonObject, objectOf } from "#lib/json.ts";
import type { Slice, slicesOf } from "./slices.ts";

/** Of a request: less than the lease lasts without a renewal. */
export const timeoutMs = 4000;

/**
 * The requests that make a Service's slices as wanted. One fails if somebody else has changed its
 * slice since. An endpoint that moves is in both slices meanwhile, not in none.
 */
export function writesOf(
  present: readonly Slice[],
  wanted: ReturnType<typeof slicesOf>,
): ApiRequest[] {
  const left = new Map(present.map((slice) => [slice.metadata.name, slice]));
  const created: ApiRequest[] = [];
  const changed: ApiRequest[] = [];
  for (const slice of wanted) {
    const before = left.get(slice.metadata.name);
    left.delete(slice.metadata.name);
    if (hasAll(before, slice)) continue;
    const metadata = { ...slice.metadata, resourceVersion: before?.metadata.resourceVersion };
    const type = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice" };
    (before === undefined ? created : changed).push({
      ...{ method: "PATCH", path: apiPaths.endpointSlice(metadata), timeoutMs },
      contentType: "application/apply-patch+yaml",
      query: { fieldManager: "plexus", force: before !== undefined },
      body: { ...type, ...slice, metadata },
    });
  }
  const deleted = [...left.values()].map(({ metadata }): ApiRequest => {
    const body = { preconditions: { resourceVersion: metadata.resourceVersion } };
    return { method: "DELETE", path: apiPaths.endpointSlice(metadata), body, timeoutMs };
  });
  return [...created, ...changed, ...deleted];
}

/** Whether an object has these values. Others may add some, and the API server has empty lists as null. */
function hasAll(object: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    const list = Array.isArray(object) ? object : [];
    return list.length === wanted.length && wanted.every((each, i) => hasAll(list[i], each));
  }
  if (!isJsonObject(wanted)) return object === wanted;
  return Object.entries(wanted).every(([key, value]) => hasAll(objectOf(object)[key], value));
}
