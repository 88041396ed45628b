import type * as z from "zod";
import { DocumentError, withValue } from "./document-error.ts";

/** Reads a value by a zod schema. @throws DocumentError naming every wrong field with its value */
export function parseWith<T>(schema: z.ZodType<T>, value: unknown, subject: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, value);
  throw new DocumentError(
    subject,
    problems.map(({ path, reason }) => ({ path: fieldPath(path), reason })),
  );
}

/** `attachments[0].cniArgs` for `["attachments", 0, "cniArgs"]` */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

/** What zod says beside the reason: the message has the value. */
const unneeded = /^Invalid (input|option): |, received (?!undefined)\w+$/g;

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly reason: string;
}

/** The wrong fields that zod found in a value, each with what is there. */
export function problemsOf({ issues }: z.ZodError, value: unknown): Problem[] {
  const problems = issues.flatMap(({ path, ...issue }): Problem[] => {
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({ path: [...path, key], reason: "unknown key" }));
    return [{ path, reason: issue.message.replace(unneeded, "") }];
  });
  return problems.map(({ path, reason }) => {
    return { path, reason: withValue(reason, valueAt(value, path)) };
  });
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, part) => (at as Record<PropertyKey, unknown> | null | undefined)?.[part],
    value,
  );
}
