import { type ResourceApi, ResourceApiUnavailableError } from "#engine/ports/devices.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { type LiveGetRequest, type LiveGetter, refusalOf } from "./live-get.ts";
import { keyOf } from "./objects.ts";

const group = "/apis/resource.k8s.io/v1";

/** A slice may have tens of kilobytes: a page stays far below the limit of a response. */
const slicesPerPage = 100;

/** ResourceClaims and ResourceSlices, read live because a node's pods seldom need them. */
export function resourceApi(live: LiveGetter): ResourceApi {
  const read = async (request: LiveGetRequest, signal: AbortSignal): Promise<JsonObject> => {
    const answer = await permitted(live.get(request, signal));
    if (answer !== undefined) return answer;
    throw new ResourceApiUnavailableError("the API server does not serve resource.k8s.io/v1");
  };
  return {
    async getClaim(claim, { signal }) {
      const object = `ResourceClaim ${keyOf(claim)}`;
      const path = apiPaths.resourceClaim(claim);
      const found = await permitted(live.get({ object, path }, signal));
      // A missing group and a missing claim are both 404.
      if (found === undefined) await read({ object: group, path: group }, signal);
      return found;
    },
    async *listSlices(driver, { nodeName, signal }) {
      const object = `the ResourceSlices of driver ${driver}`;
      const path = `${group}/resourceslices`;
      // Slices without a node name are for all nodes, for some, or have a node selection per device.
      for (const name of new Set([nodeName, ""])) {
        const fieldSelector = `spec.driver=${driver},spec.nodeName=${name}`;
        let page: string | undefined;
        do {
          const query = { fieldSelector, limit: slicesPerPage, continue: page };
          const answer = await read({ object, path, query, isShared: true }, signal);
          yield* objectsOf(answer.items);
          const { continue: next } = objectOf(answer.metadata);
          page = typeof next === "string" && next !== "" ? next : undefined;
        } while (page !== undefined);
      }
    },
  };
}

/** @throws ResourceApiUnavailableError when the read is forbidden */
async function permitted<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    throw new ResourceApiUnavailableError(refusal.message, { cause: error });
  }
}
