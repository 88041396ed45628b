import { isDeepStrictEqual } from "node:util";
import type { V1ObjectMeta } from "@kubernetes/client-node";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { isJsonObject, objectOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Slice } from "./slices.ts";

/** Of a request: less than the lease lasts without a renewal. */
export const timeoutMs = 4000;

type Applied = { readonly metadata: V1ObjectMeta };

/** Creates or changes an object by a server-side apply, unless others have done so since. @throws ApiError */
export function apply<T extends Applied>(
  client: JsonApi,
  folder: string,
  object: T,
): Promise<void> {
  const { name, resourceVersion } = object.metadata;
  return client.write({
    ...{ method: "PATCH", path: `${folder}/${name}`, contentType: "application/apply-patch+yaml" },
    query: { fieldManager: "plexus", force: resourceVersion !== undefined },
    ...{ body: object, timeoutMs },
  });
}

/** The requests that make a Service's slices as they shall be. */
export function writesOf(client: JsonApi, own: readonly Slice[], wanted: readonly Slice[]) {
  const folderOf = ({ metadata }: Slice) => apiPaths.endpointSlicesOf(`${metadata.namespace}`);
  const left = new Map(own.map((slice) => [slice.metadata.name, slice]));
  const puts = wanted.flatMap((slice) => {
    const before = left.get(slice.metadata.name);
    left.delete(slice.metadata.name);
    if (hasAll(before, slice)) return [];
    const { resourceVersion } = before?.metadata ?? {};
    const object = { ...slice, metadata: omitUndefined({ ...slice.metadata, resourceVersion }) };
    return () => apply(client, folderOf(slice), object);
  });
  const deletions = [...left.values()].map((slice) => () => {
    const { name, resourceVersion } = slice.metadata;
    const request = {
      path: `${folderOf(slice)}/${name}`,
      body: { preconditions: { resourceVersion } },
    };
    return client.write({ method: "DELETE", ...request, timeoutMs });
  });
  return [...puts, ...deletions];
}

/** Whether an object has these values; a list is one value, which the API server may have as null. */
function hasAll(object: unknown, wanted: unknown): boolean {
  if (!isJsonObject(wanted)) return isDeepStrictEqual(object ?? [], wanted);
  return Object.entries(wanted).every(([key, value]) => hasAll(objectOf(object)[key], value));
}
