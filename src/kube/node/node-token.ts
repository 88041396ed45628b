import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { objectOf } from "#lib/json.ts";

/** Options of {@link requestNodeToken}. */
export interface NodeTokenRequest {
  readonly account: ObjectName;
  /** The token is valid while this Node exists, and names it in admission requests. */
  readonly nodeName: string;
  /** The requested lifetime. The API server may grant less. */
  readonly seconds: number;
}

/**
 * Requests a token of a service account that is bound to a Node, not to a pod. Needs `create` on
 * `serviceaccounts/token`, and Kubernetes 1.31. @throws ApiError; Error for an answer without token
 */
export async function requestNodeToken(
  client: JsonApi,
  { account, nodeName, seconds }: NodeTokenRequest,
): Promise<string> {
  const { status } = await client.json({
    method: "POST",
    path: apiPaths.token(account),
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: [],
        expirationSeconds: seconds,
        boundObjectRef: { apiVersion: "v1", kind: "Node", name: nodeName },
      },
    },
    timeoutMs: 10_000,
  });
  const { token } = objectOf(status);
  if (typeof token === "string" && token !== "") return token;
  throw new Error(`the API server granted no token for ${account.namespace}/${account.name}`);
}
