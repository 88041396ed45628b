import type { EngineConfig } from "#engine/config.ts";
import { type PlannedAttachment, recordedList } from "#engine/plan/planned-attachment.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A recorded attachment as it was planned, without its selection. @throws CniError 7 */
export function recordedNetwork(
  recorded: RecordedAttachment,
  config: Pick<EngineConfig, "auxiliaryCNIChainName">,
): Omit<PlannedAttachment, "selection"> {
  const { displayName, isDefault, ifName, device, cniArgs, capabilityArgs, searchPath } = recorded;
  const isAuxiliary = !isDefault && displayName === config.auxiliaryCNIChainName;
  return omitUndefined({
    ...{ displayName, isDefault, ifName, cniArgs, capabilityArgs, searchPath, isAuxiliary, device },
    list: recordedList(recorded),
  });
}
