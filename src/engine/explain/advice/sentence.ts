import { withoutSubject } from "#cni/error.ts";
import { explainError, type Failure } from "#engine/explain/explain-error.ts";
import type { Advice } from "#engine/explain/explanation.ts";
import { type Condition, isFine, textOf } from "#lib/condition.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";

const quotedMax = 500;

/** `Could not attach NETWORK: REASON. DO THIS.` */
export function couldNot(what: string, failure: Failure, next?: string): Condition {
  const { subject = "the pod" } = failure;
  return explained(`${what} ${subject}`, failure, next);
}

/** `WHAT: REASON. DO THIS.` The pod lacks networks for it, or will after a restart. */
export function explained(what: string, failure: Failure, next?: string): Condition {
  const { finding: reason, step: template } = explainError(failure);
  const { subject, message, node = "" } = failure;
  const step = template.replace("NODE", node || "NODE");
  const why = shortened(withoutSubject(message, subject ?? ""), quotedMax);
  const end = /[.?]$/.test(why) ? "" : ".";
  const text = `${what}: ${why}${end} ${capitalized(step)}`;
  return { reason, message: text, next, subject, lacksNetworks: true };
}

/** A condition as the one sentence of `explain`. */
export function adviceOf(condition: Condition): Advice {
  const { reason: finding, subject } = condition;
  const sentence = `${capitalized(textOf(condition))}.`;
  return omitUndefined({ finding, sentence, ok: isFine(condition), subject });
}

export function capitalized(sentence: string): string {
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;
}
