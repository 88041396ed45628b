import type { EngineConfig } from "#engine/config.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";

/** A recorded attachment as it was planned. @throws CniError 7 */
export function recordedNetwork(
  recorded: RecordedAttachment,
  config: Pick<EngineConfig, "auxiliaryCNIChainName">,
): PlannedAttachment {
  const { displayName, isDefault, ifName, device, definition } = recorded;
  const { cniArgs, capabilityArgs, searchPath } = recorded;
  return omitUndefined({
    ...{ displayName, isDefault, ifName, cniArgs, capabilityArgs, searchPath, device, definition },
    isAuxiliary: isAuxiliary(recorded, config),
    ...{ selection: recordedSelection(recorded), list: recordedList(recorded) },
  });
}

/** Whether a recorded attachment is the configured chain of plugins that changes the others. */
export function isAuxiliary(
  { isDefault, displayName }: Pick<RecordedAttachment, "isDefault" | "displayName">,
  { auxiliaryCNIChainName }: Pick<EngineConfig, "auxiliaryCNIChainName">,
): boolean {
  return !isDefault && displayName === auxiliaryCNIChainName;
}

/** The element of the annotation that requested an attachment. */
function recordedSelection({ selection }: RecordedAttachment): NetworkSelection | undefined {
  return selection && ({ ...selection, position: 0 } as JsonObject & NetworkSelection);
}
