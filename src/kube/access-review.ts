import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { ApiClient } from "./api/client.ts";

/** What the API server says of somebody's token and a URL that is no object's. */
export type AccessVerdict = "allowed" | "unauthenticated" | "forbidden";

/** Asks whether the bearer of a token may `get` a path, such as `/metrics`. @throws ApiError when nobody answers */
export type AccessReview = (token: string, path: string) => Promise<AccessVerdict>;

const authentication = "/apis/authentication.k8s.io/v1/tokenreviews";
const authorization = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/**
 * The API server's own answer, by a TokenReview and a SubjectAccessReview: what kube-rbac-proxy does.
 * plexusd needs `create` on both for it.
 */
export function accessReview(client: ApiClient, timeoutMs: number): AccessReview {
  return async (token, path) => {
    const user = await authenticatedUser(client, { token, timeoutMs });
    if (user === undefined) return "unauthenticated";
    const review = await client.json({
      method: "POST",
      path: authorization,
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec: { ...user, nonResourceAttributes: { path, verb: "get" } },
      },
      timeoutMs,
    });
    return statusOf(review).allowed === true ? "allowed" : "forbidden";
  };
}

/** The user as a SubjectAccessReview has it; undefined when the token is nobody's. */
async function authenticatedUser(
  client: ApiClient,
  { token, timeoutMs }: { token: string; timeoutMs: number },
): Promise<JsonObject | undefined> {
  const review = await client.json({
    method: "POST",
    path: authentication,
    body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token } },
    timeoutMs,
  });
  const { authenticated, user } = statusOf(review);
  if (authenticated !== true || !isJsonObject(user)) return undefined;
  const { username, uid, groups, extra } = user;
  return { user: username ?? "", uid: uid ?? "", groups: groups ?? [], extra: extra ?? {} };
}

function statusOf(review: Json): JsonObject {
  const status = isJsonObject(review) ? review.status : undefined;
  return isJsonObject(status) ? status : {};
}
