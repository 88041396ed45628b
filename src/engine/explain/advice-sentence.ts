import { subjectPrefix } from "#cni/error.ts";
import { explainError, type Failure } from "./explain-error.ts";
import type { Advice } from "./explanation.ts";

const quotedMax = 500;

/** `Could not attach NETWORK: REASON. DO THIS.` */
export function couldNot(what: string, failure: Failure, consequence = ""): Advice {
  const { subject = "the pod" } = failure;
  return explained(`${what} ${subject}`, failure, consequence);
}

/** `WHAT: REASON. DO THIS.` */
export function explained(what: string, failure: Failure, consequence = ""): Advice {
  const { finding, step } = explainError(failure);
  const { subject = "", message } = failure;
  const prefix = subjectPrefix(subject);
  const reason = quoted(message.startsWith(prefix) ? message.slice(prefix.length) : message);
  const end = /[.?]$/.test(reason) ? "" : ".";
  const doThis = `${step.charAt(0).toUpperCase()}${step.slice(1)}`;
  return problem(finding, `${what}: ${reason}${end} ${doThis}${consequence}.`);
}

/** Something is wrong. */
export function problem(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: false };
}

/** Nothing is wrong. */
export function fine(finding: string, sentence: string): Advice {
  return { finding, sentence, ok: true };
}

function quoted(message: string): string {
  return message.length > quotedMax ? `${message.slice(0, quotedMax)}…` : message;
}
