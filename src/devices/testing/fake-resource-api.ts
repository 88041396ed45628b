import type { ResourceApi } from "#engine/ports/devices.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";

/** ResourceClaims and ResourceSlices of a test. */
export class FakeResourceApi implements ResourceApi {
  claims: readonly JsonObject[] = [];
  slices: readonly JsonObject[] = [];
  /** `claim namespace/name` and `slices driver`, in the order in which they were asked for. */
  readonly asked: string[] = [];
  /** The nodes whose slices were asked for. */
  readonly nodeNames: string[] = [];
  /** Thrown by every question, when set. */
  failure: Error | undefined;
  hangs = false;

  async getClaim(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    { signal }: { readonly signal: AbortSignal },
  ): Promise<JsonObject | undefined> {
    this.asked.push(`claim ${namespace}/${name}`);
    if (this.hangs) await untilAborted(new Promise(() => undefined), signal);
    if (this.failure !== undefined) throw this.failure;
    return this.claims.find(
      ({ metadata }) =>
        isJsonObject(metadata) && metadata.namespace === namespace && metadata.name === name,
    );
  }

  /** All of them, as an API server that knows no selector would give. */
  async *listSlices(
    driver: string,
    { nodeName }: { readonly nodeName: string },
  ): AsyncGenerator<JsonObject, void, undefined> {
    this.asked.push(`slices ${driver}`);
    this.nodeNames.push(nodeName);
    if (this.failure !== undefined) throw this.failure;
    yield* this.slices;
  }
}
