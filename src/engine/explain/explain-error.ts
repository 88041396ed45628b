import { type Reason, reasonCodes } from "#cni/error.ts";
import { pluginErrors } from "./plugin-errors.ts";
import { reasonSteps } from "./reason-steps.ts";

/** A failed call or network. */
export interface Failure {
  readonly message: string;
  readonly code?: number;
  /** Absent where a plugin gave the error. */
  readonly reason?: Reason;
}

/** Codes of the specification that mean the same from every plugin. */
const sharedReasons: readonly Reason[] = ["IncompatibleCniVersion", "InvalidNetns"];

/** What an error is, and what to do: by its reason, or by the words of the plugin that gave it. */
export function explainError({ message, code, reason }: Failure): {
  finding: string;
  step: string;
} {
  if (reason !== undefined) return { finding: reason, step: reasonSteps[reason] };
  const known = pluginErrors.find(({ words }) => words.some((phrase) => says(message, phrase)));
  if (known !== undefined) return known;
  const shared = sharedReasons.find((each) => reasonCodes[each] === code);
  if (shared !== undefined) return { finding: shared, step: reasonSteps[shared] };
  return {
    finding: "PluginFailed",
    step: "correct what the plugin's message names, in the definition or on the node",
  };
}

/** Whether the parts of a phrase occur in a message, one after the other. */
function says(message: string, phrase: string): boolean {
  const text = message.toLowerCase();
  let from = 0;
  for (const part of phrase.toLowerCase().split("…")) {
    const at = text.indexOf(part.trim(), from);
    if (at < 0) return false;
    from = at + part.trim().length;
  }
  return true;
}
