import { type NetConfList, toJson } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import { mayLeaveAddress } from "#engine/del/ipam.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { JsonObject } from "#lib/json.ts";
import type { IgnoredRequest } from "#npwg/served-requests.ts";

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
   * Adds the result of a network: it is in the record once, and in the plan in each DEL. The requests that the
   * network ignored are in the record alone.
   * @throws LimitError (code 100) when it is too much
   */
  addResult(
    { list }: Pick<PlannedAttachment, "list">,
    result: JsonObject,
    ignored: readonly IgnoredRequest[],
  ): void {
    const copies = 1 + list.plugins.length + released(list).length;
    const bytes = copies * sizeOf(result) + sizeOf(ignored);
    this.#add(bytes, "with the results so far");
  }

  #add(bytes: number, extent: string): void {
    this.#bytes += bytes;
    const field = `the attachment record with its teardown plan, ${extent},`;
    checkLimit(limits.record, this.#bytes, field);
  }
}

/**
 * The configuration is in the record as a whole and in the plan in parts; everything else is in the
 * record once, and in the plan in each DEL, whose search path is there twice.
 */
function plannedBytes({ list, cniArgs, capabilityArgs, searchPath }: PlannedAttachment): number {
  const parameters = sizeOf({ cniArgs, capabilityArgs, searchPath }) + sizeOf(searchPath);
  const ipamDels = released(list).map(({ raw }) => sizeOf(raw) + parameters);
  const dels = 2 * sizeOf(toJson(list)) + (1 + list.plugins.length) * parameters;
  return ipamDels.reduce((sum, bytes) => sum + bytes, dels);
}

/** The plugins after which the plan has the DEL of their IPAM plugin. */
function released({ plugins }: NetConfList): readonly PluginConf[] {
  return plugins.filter(mayLeaveAddress);
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
