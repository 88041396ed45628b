import { isDeepStrictEqual } from "node:util";

/** The implementation does not do what the requirement says. The message is the reason, on one line. */
export class Mismatch extends Error {}

/** The pod has no network-status annotation, which is optional. */
export class NoStatus extends Mismatch {}

/** The requirement cannot be tested here. The message is the reason. */
export class NotTestable extends Error {}

/** @throws Mismatch unless both values are equal JSON values */
export function expectEqual(what: string, got: unknown, expected: unknown): void {
  if (isDeepStrictEqual(got, expected)) return;
  throw new Mismatch(`${what}: expected ${show(expected)}, got ${show(got)}`);
}

/** @throws Mismatch with what was expected and what came instead */
export function expectThat(holds: boolean, expected: string, got: unknown): asserts holds {
  if (!holds) throw new Mismatch(`expected ${expected}, got ${show(got)}`);
}

/** A value on one line, without the end of a very long one. */
export function show(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line || "nothing";
}

/** Some implementations have all that they got on stdin in their errors. */
const maxLength = 2000;
