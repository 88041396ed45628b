import type fc from "fast-check";
import { CniError } from "#cni/error.ts";

/** A reader of external text that is fuzzed. */
export interface Target {
  /** The longest input, in characters: more than the reader's own limit where it has one. */
  readonly maxLength: number;
  /** Inputs that are right, or nearly. */
  readonly inputs: fc.Arbitrary<string>;
  /** What mutations put into inputs, once or many times over. */
  readonly tokens: readonly string[];
  /**
   * The processor time that reading one input may take.
   * @default 100, after which calls of other pods would be held up
   */
  readonly maxMs?: number;
  /** Reads an input. Throws only for what is a defect, never for an input that is refused as it must be. */
  read(input: string): void | Promise<void>;
}

/** Runs `read`; errors that `isExpected`, which are CniErrors unless it is given, are how a reader refuses its input. */
export function refusing<T>(read: () => T, isExpected = isCniError): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!isExpected(error)) throw error;
    noteRefusal(error);
    return undefined;
  }
}

function isCniError(error: unknown): boolean {
  return error instanceof CniError;
}

const seen = new Set<string>();
let isNew = false;

/**
 * Notes how a reader refused its input. A message never given before, its numbers and quotations
 * aside, is taken for a sign that the input reached code that no other did.
 */
function noteRefusal(error: unknown): void {
  const message = String(error).slice(0, 200);
  const form = message.replaceAll(/"[^"]*"?/g, '""').replaceAll(/\d+/g, "0");
  if (seen.has(form)) return;
  seen.add(form);
  isNew = true;
}

/** Whether there was a new one since the last question. */
export function takeNovelty(): boolean {
  const was = isNew;
  isNew = false;
  return was;
}

/** A defect unless the condition holds. */
export function must(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

/** What JSON texts are broken with. */
export const jsonTokens: readonly string[] = [
  ...'{}[]":,\\ \n\t\0é',
  "\\n",
  "\\u0000",
  "\\ud800",
  "null",
  "true",
  "-1",
  "1e400",
  '"":',
  '"__proto__":',
  "[[",
  '{"a":',
  "{},",
];
