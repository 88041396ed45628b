import { toJson } from "#cni/conf/conf.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import type { JsonObject } from "#lib/json.ts";
import type { PlannedAttachment } from "./planned-attachment.ts";

/**
 * Adds up how long the record and the teardown plan of a pod become, before either is made: each
 * network and each result may be within its limits, and all of them together beyond what a call can
 * keep.
 */
export class RecordSize {
  #bytes = 0;

  /** @throws LimitError (code 100) naming the network with which it is too much */
  constructor(planned: readonly PlannedAttachment[]) {
    for (const attachment of planned) {
      this.#add(plannedBytes(attachment), `up to network ${attachment.displayName}`);
    }
  }

  /**
   * Adds the result of a network: it is in the record once, and in the plan in the DEL of each plugin.
   * @throws LimitError (code 100) when it is too much
   */
  addResult({ list }: Pick<PlannedAttachment, "list">, result: JsonObject): void {
    this.#add((1 + list.plugins.length) * sizeOf(result), "with the results so far");
  }

  #add(bytes: number, extent: string): void {
    this.#bytes += bytes;
    const field = `the attachment record with its teardown plan, ${extent},`;
    checkLimit(limits.record, this.#bytes, field);
  }
}

/**
 * The configuration is in the record as a whole and in the plan in parts; everything else is in the
 * record once, and in the plan in the DEL of each plugin, whose search path is there twice.
 */
function plannedBytes({ list, cniArgs, capabilityArgs, searchPath }: PlannedAttachment): number {
  const parameters = sizeOf({ cniArgs, capabilityArgs, searchPath }) + sizeOf(searchPath);
  return 2 * sizeOf(toJson(list)) + (1 + list.plugins.length) * parameters;
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
