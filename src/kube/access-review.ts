import { isJsonObject, type JsonObject, objectOf } from "#lib/json.ts";
import { asApiError } from "./api/api-error.ts";
import type { ApiClient } from "./api/client.ts";

/** The API server's decision about a token and a non-resource URL. */
export type AccessVerdict = "allowed" | "unauthenticated" | "forbidden";

/** Decides whether the bearer of a token may `get` a path, such as `/metrics`. @throws ApiError */
export type AccessReview = (token: string, path: string) => Promise<AccessVerdict>;

/** Asks by TokenReview and SubjectAccessReview, as kube-rbac-proxy does; needs `create` on both. */
export function accessReview(client: ApiClient, timeoutMs: number): AccessReview {
  const review = async (group: string, kind: string, spec: object): Promise<JsonObject> => {
    const apiVersion = `${group}/v1`;
    const { status } = await client.json({
      method: "POST",
      path: `/apis/${apiVersion}/${kind.toLowerCase()}s`,
      body: { apiVersion, kind, spec },
      timeoutMs,
    });
    return objectOf(status);
  };
  return async (token, path) => {
    const { authenticated, user } = await review("authentication.k8s.io", "TokenReview", { token });
    if (authenticated !== true || !isJsonObject(user)) return "unauthenticated";
    const { username = "", uid = "", groups = [], extra = {} } = user;
    const { allowed } = await review("authorization.k8s.io", "SubjectAccessReview", {
      ...{ user: username, uid, groups, extra },
      nonResourceAttributes: { path, verb: "get" },
    });
    return allowed === true ? "allowed" : "forbidden";
  };
}

/** Whether the API server rejects a token; false without an answer. */
export async function isRejected(client: ApiClient, token: string): Promise<boolean> {
  const asked = client.json({ path: "/version", timeoutMs: 10_000, token });
  const error = await asked.then(() => undefined, asApiError);
  return error?.status === 401;
}
