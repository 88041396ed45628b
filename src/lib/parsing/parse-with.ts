import type * as z from "zod";
import { DocumentError, type FieldProblem, withValue } from "./document-error.ts";

/** Reads a value by a zod schema. @throws DocumentError naming every wrong field with its value */
export function parseWith<T>(schema: z.ZodType<T>, value: unknown, subject: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new DocumentError(
    subject,
    parsed.error.issues.flatMap((issue) => problemsOf(issue, value)),
  );
}

/** `attachments[0].cniArgs` for `["attachments", 0, "cniArgs"]` */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

function problemsOf(issue: z.core.$ZodIssue, value: unknown): FieldProblem[] {
  const { path } = issue;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ path: fieldPath([...path, key]), reason: "unknown key" }));
  }
  const reason = issue.message.replace(/^Invalid (input|option): /, "");
  return [{ path: fieldPath(path), reason: withValue(reason, valueAt(value, path)) }];
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, part) => (at as Record<PropertyKey, unknown> | null | undefined)?.[part],
    value,
  );
}
