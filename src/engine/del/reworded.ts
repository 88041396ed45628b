import { CniError } from "#cni/error.ts";

/**
 * The error of a DEL without the words on which containerd treats a pod as already gone, and forgets
 * it: wherever they come from, no DEL answers with them.
 */
export function rewordedForDel(error: CniError): CniError {
  const message = reword(error.message);
  const details = error.details && reword(error.details);
  if (message === error.message && details === error.details) return error;
  const { code, reason, subject, cause = error } = error;
  return new CniError(code, message, { details, reason, subject, cause });
}

function reword(text: string): string {
  return text
    .replaceAll(/no such file or directory/gi, "file is absent")
    .replaceAll(/not\s+found/gi, "absent");
}
