import type { KnownError } from "./known-error.ts";
import { nodeErrors } from "./node-errors.ts";
import { pluginErrors } from "./plugin-errors.ts";
import { requestErrors } from "./request-errors.ts";

/** A failure in words, as an ADD or a DEL returned it. */
export interface FailureText {
  readonly message: string;
  readonly code?: number;
}

/** The first that fits counts: what Plexus says itself, then what plugins say. */
const knownErrors: readonly KnownError[] = [...nodeErrors, ...requestErrors, ...pluginErrors];

/** What is known of an error; a failed plugin that nobody knows has its own words and a general step. */
export function explainError(error: FailureText): { finding: string; step: string } {
  const known = knownErrors.find(
    ({ code, words }) =>
      (code === undefined || code === error.code) &&
      (words === undefined || words.some((phrase) => says(error.message, phrase))),
  );
  if (known !== undefined) return { finding: known.finding, step: known.step };
  return {
    finding: "plugin-error",
    step: "the message is the plugin's own: correct what it names in the definition or on the node",
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

/** Every finding of an error, for the test that each of them is provoked. @internal */
export const errorFindings: readonly string[] = knownErrors.map(({ finding }) => finding);
