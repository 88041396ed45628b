import { CniError } from "#cni/error.ts";
import { rewordForDel } from "#cni/runtime/delegate-error.ts";

/** The error of a DEL without the words on which containerd forgets the pod. */
export function rewordedForDel(error: CniError): CniError {
  const message = rewordForDel(error.message);
  const details = error.details === undefined ? undefined : rewordForDel(error.details);
  if (message === error.message && details === error.details) return error;
  const { code, reason, subject, cause = error } = error;
  return new CniError(code, message, { details, reason, subject, cause });
}
