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
  const [, root, group, version = ""] = path.split("/");
  const groupVersion = `${group}/${version}`;
  const isOfGroup = root === "apis" && version !== "";
  if (failure.status !== 404 || failure.isNotFound || !isOfGroup) return failure;
  const request = { path: "/apis", timeoutMs, ...(signal && { signal }) };
  const { kind, groups } = await api.json(request).catch((): JsonObject => ({}));
  const served = objectsOf(groups).flatMap(({ versions }) => objectsOf(versions));
  const isServed = served.some((each) => each.groupVersion === groupVersion);
  if (kind !== "APIGroupList" || isServed) return failure;
  const message = `${failure.message.split(": ", 1)[0]}: the API server does not serve ${groupVersion}`;
  return new ApiError(message, { status: 404, reason: notFound });
}
