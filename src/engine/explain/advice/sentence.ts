import { withoutSubject } from "#cni/error.ts";
import { explainError, type Failure } from "#engine/explain/explain-error.ts";
import type { Advice } from "#engine/explain/explanation.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";

const quotedMax = 500;

/** `Could not attach NETWORK: REASON. DO THIS.` */
export function couldNot(what: string, failure: Failure, consequence = ""): Advice {
  const { subject = "the pod" } = failure;
  return explained(`${what} ${subject}`, failure, consequence);
}

/** `WHAT: REASON. DO THIS.` */
export function explained(what: string, failure: Failure, consequence = ""): Advice {
  const { finding, step: template } = explainError(failure);
  const { subject = "", message, node = "NODE" } = failure;
  const step = template.replace("NODE", node);
  const reason = shortened(withoutSubject(message, subject), quotedMax);
  const end = /[.?]$/.test(reason) ? "" : ".";
  const sentence = `${what}: ${reason}${end} ${capitalized(step)}${consequence}.`;
  return omitUndefined({ ...problem(finding, sentence), subject: failure.subject });
}

/** Something is wrong. */
export function problem(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: false };
}

/** Nothing is wrong. */
export function fine(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: true };
}

export function capitalized(sentence: string): string {
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;
}
