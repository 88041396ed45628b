import { CniError } from "#cni/error.ts";
import { type ResourceApi, ResourceApiUnavailableError } from "#engine/ports/devices.ts";
import { ApiError } from "#kube/api/api-error.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import type { LiveGetRequest, LiveGetter } from "./live-get.ts";
import { keyOf } from "./objects.ts";

const group = "/apis/resource.k8s.io/v1";

/** A slice may have tens of kilobytes: a page stays far below the limit of a response. */
const slicesPerPage = 100;

/** ResourceClaims and ResourceSlices, read live because a node's pods seldom need them. */
export class KubeResourceApi implements ResourceApi {
  readonly #live: LiveGetter;

  constructor(live: LiveGetter) {
    this.#live = live;
  }

  async getClaim(
    claim: ObjectName,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<JsonObject | undefined> {
    const request = {
      object: `ResourceClaim ${keyOf(claim)}`,
      path: apiPaths.resourceClaim(claim),
    };
    const found = await permitted(this.#live.get(request, signal));
    // A missing group and a missing claim are both 404.
    if (found === undefined) await this.#require({ object: group, path: group }, signal);
    return found;
  }

  async *listSlices(
    driver: string,
    { nodeName, signal }: { readonly nodeName: string; readonly signal: AbortSignal },
  ): AsyncGenerator<JsonObject, void, undefined> {
    // Slices without a node name are for all nodes, for some, or have a node selection per device.
    for (const name of new Set([nodeName, ""])) {
      const selector = `spec.driver=${driver},spec.nodeName=${name}`;
      const object = `the ResourceSlices of driver ${driver}`;
      let page: string | undefined;
      do {
        const query = { fieldSelector: selector, limit: slicesPerPage, continue: page };
        const request = { object, path: `${group}/resourceslices`, query, isShared: true };
        const answer = await this.#require(request, signal);
        yield* objectsOf(answer.items);
        const { continue: next } = objectOf(answer.metadata);
        page = typeof next === "string" && next !== "" ? next : undefined;
      } while (page !== undefined);
    }
  }

  /** @throws ResourceApiUnavailableError when the API server does not know the group */
  async #require(request: LiveGetRequest, signal: AbortSignal): Promise<JsonObject> {
    const answer = await permitted(this.#live.get(request, signal));
    if (answer !== undefined) return answer;
    throw new ResourceApiUnavailableError("the API server does not serve resource.k8s.io/v1");
  }
}

/** @throws ResourceApiUnavailableError when the read is forbidden */
async function permitted<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    const cause = error instanceof CniError ? error.cause : undefined;
    if (!(cause instanceof ApiError && cause.status === 403)) throw error;
    throw new ResourceApiUnavailableError(cause.message, { cause: error });
  }
}
