import type { Failure } from "#engine/explain/explain-error.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRows } from "#lib/reasons.ts";

export const failedAddPage = "failed-add";
export const maxFailedAddBytes = 64 * 1024;

/** Reads what plexus-standalone, perhaps of another release, reports. @throws Error for other JSON */
export function parseFailedAdd(body: string): Failure {
  const sent: unknown = JSON.parse(body);
  if (!isJsonObject(sent) || typeof sent.message !== "string")
    throw new Error("a failed ADD needs a message");
  const { message, code, subject } = sent;
  return omitUndefined({
    message,
    code: typeof code === "number" ? code : undefined,
    subject: typeof subject === "string" ? subject : undefined,
    reason: reasonRows().find(([name]) => name === sent.reason)?.[0],
  });
}
