import { type JsonObject, objectsOf } from "#lib/json.ts";
import { ApiError, notFound } from "./api-error.ts";
import type { ApiRequest, JsonApi } from "./json-api.ts";

/**
 * The error of a request that failed. An API server has no Status object for a group or version that
 * it does not serve: its list of those that it serves tells its plain 404 from a proxy's.
 */
export async function absenceOf(
  api: JsonApi,
  { path, timeoutMs, signal }: ApiRequest,
  failure: ApiError,
): Promise<ApiError> {
  const [, root, group, version] = path.split("/");
  const isOfGroup = root === "apis" && version !== undefined;
  if (failure.status !== 404 || failure.isNotFound || !isOfGroup) return failure;
  const groupVersion = `${group}/${version}`;
  const asked = api.json({ path: "/apis", timeoutMs, ...(signal && { signal }) });
  const { kind, groups } = await asked.catch((): JsonObject => ({}));
  const served = objectsOf(groups).flatMap(({ versions }) => objectsOf(versions));
  const isServed = served.some((each) => each.groupVersion === groupVersion);
  if (kind !== "APIGroupList" || isServed) return failure;
  return new ApiError(failure.message, { status: 404, reason: notFound });
}
