import { CniError } from "#cni/error.ts";
import { type ResourceApi, ResourceApiUnavailableError } from "#engine/ports/devices.ts";
import { ApiError } from "#kube/api/api-error.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { LiveGetter } from "./live-get.ts";

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
    { namespace, name }: { readonly namespace: string; readonly name: string },
    { signal }: { readonly signal: AbortSignal },
  ): Promise<JsonObject | undefined> {
    const path = `${group}/namespaces/${encodeURIComponent(namespace)}/resourceclaims/${encodeURIComponent(name)}`;
    const object = `ResourceClaim ${namespace}/${name}`;
    const claim = await permitted(this.#live.get({ object, path }, signal));
    if (claim === undefined) await this.#requireGroup(signal);
    return claim;
  }

  async *listSlices(
    driver: string,
    { nodeName, signal }: { readonly nodeName: string; readonly signal: AbortSignal },
  ): AsyncGenerator<JsonObject, void, undefined> {
    // Slices without a node name are for all nodes, for some, or have a node selection per device.
    for (const name of new Set([nodeName, ""])) {
      const selector = `spec.driver=${driver},spec.nodeName=${name}`;
      let page: string | undefined;
      do {
        const answer = await this.#page(driver, { selector, page, signal });
        yield* objectsOf(answer.items);
        page = nextPage(answer);
      } while (page !== undefined);
    }
  }

  async #page(
    driver: string,
    { selector, page, signal }: { selector: string; page: string | undefined; signal: AbortSignal },
  ): Promise<JsonObject> {
    const query = { fieldSelector: selector, limit: slicesPerPage, continue: page };
    const request = {
      object: `the ResourceSlices of driver ${driver}`,
      path: `${group}/resourceslices`,
      query: omitUndefined(query),
      isShared: true,
    };
    const answer = await permitted(this.#live.get(request, signal));
    if (answer === undefined) throw groupMissing();
    return answer;
  }

  /** Distinguishes a missing group, for which it throws, from a missing claim: both are 404. */
  async #requireGroup(signal: AbortSignal): Promise<void> {
    const found = await permitted(this.#live.get({ object: group, path: group }, signal));
    if (found === undefined) throw groupMissing();
  }
}

function nextPage({ metadata }: JsonObject): string | undefined {
  const { continue: token } = objectOf(metadata);
  return typeof token === "string" && token !== "" ? token : undefined;
}

function groupMissing(): ResourceApiUnavailableError {
  return new ResourceApiUnavailableError("the API server does not serve resource.k8s.io/v1");
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
