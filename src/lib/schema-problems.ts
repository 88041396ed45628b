import type * as z from "zod";
import { type FieldProblem, withValue } from "./document-error.ts";

/** What a zod schema found wrong in `value`, each problem with its path and the value there. */
export function schemaProblems({ issues }: z.ZodError, value: unknown): FieldProblem[] {
  return issues.flatMap((issue): FieldProblem[] => {
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        path: fieldPath([...issue.path, key]),
        reason: "unknown key",
      }));
    }
    const reason = issue.message.replace(/^Invalid (input|option): /, "");
    return [{ path: fieldPath(issue.path), reason: withValue(reason, valueAt(value, issue.path)) }];
  });
}

/** `attachments[0].cniArgs` for `["attachments", 0, "cniArgs"]` */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(
    (at, part) => (at as Record<PropertyKey, unknown> | null | undefined)?.[part],
    value,
  );
}
