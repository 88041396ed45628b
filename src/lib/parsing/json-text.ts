import { canKeepDigits, foldKey, isChanged, type Json, parseExactly } from "#lib/json.ts";
import { shortened } from "#lib/one-line.ts";

/** Unusable JSON text; `line` and `column` count from 1 and point at the first wrong character. */
export class JsonTextError extends Error {
  override readonly name = "JsonTextError";
  readonly line: number;
  readonly column: number;

  constructor(reason: string, at: { line: number; column: number }) {
    super(`${reason} at line ${at.line}, column ${at.column}`);
    this.line = at.line;
    this.column = at.column;
  }
}

/** Far more levels than any configuration has, far fewer than any stack. */
const maxDepth = 100;

/**
 * Parses JSON text as {@link parseExactly} does; the last value of a repeated key counts, as in Go. Nesting is
 * limited, so that callers can walk and print a value recursively. A number beyond the range of a double
 * is an error, as in Go; JavaScript reads it as Infinity and prints that as null. So is an integer that a
 * double would change where the engine cannot keep its digits: a program would write another one.
 * @throws JsonTextError
 */
export function parseJsonText(text: string): Json {
  let value: Json = null;
  let isRead = false;
  try {
    value = parseExactly(text);
    isRead = isUsable(value, maxDepth);
  } catch {
    // The message of JSON.parse differs between engines, and often has no position.
  }
  if (isRead && canKeepDigits()) return value;
  const problem = findProblem(text);
  if (problem === undefined) return value as Json;
  throw new JsonTextError(problem.reason, position(text, problem.offset));
}

/** The keys of valid JSON text in order, and whether their object has had them before, in any case. */
export function* keysIn(text: string): Generator<{ key: string; isRepeated: boolean }> {
  const open: Set<string>[] = [];
  let last = "";
  for (let offset = 0; offset < text.length; ) {
    const token = tokenAt(text, offset);
    if (token === "{") open.push(new Set());
    if (token === "}") open.pop();
    if (token === ":") {
      const key = JSON.parse(last) as string;
      const keys = open.at(-1);
      yield { key, isRepeated: keys?.has(foldKey(key)) === true };
      keys?.add(foldKey(key));
    }
    if (token.startsWith('"')) last = token;
    offset += token.length || 1;
  }
}

function isUsable(value: Json, depth: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (value === null || typeof value !== "object") return true;
  if (depth === 0) return false;
  if (Array.isArray(value)) return value.every((element) => isUsable(element, depth - 1));
  for (const key in value) if (!isUsable(value[key] as Json, depth - 1)) return false;
  return true;
}

type Expected = keyof typeof grammar;

const afterValueStart = {
  "[": 'a value or "]"',
  "{": 'a key in double quotes or "}"',
  string: "done",
  scalar: "done",
} as const;

/**
 * What may come next in JSON, as messages say it, and what comes after each kind of token there. "done" is
 * the end of a value, after which the array or object around it decides.
 */
const grammar = {
  "a value": afterValueStart,
  'a value or "]"': { ...afterValueStart, "]": "done" },
  "a key in double quotes": { string: '":"' },
  'a key in double quotes or "}"': { string: '":"', "}": "done" },
  '":"': { ":": "a value" },
  '"," or "]"': { ",": "a value", "]": "done" },
  '"," or "}"': { ",": "a key in double quotes", "}": "done" },
  "the end": {},
} as const;

const punctuation = "[]{},:";

interface Open {
  readonly bracket: string;
  key?: string;
}

/** The first problem of text that is not JSON, in linear time and without recursion. */
function findProblem(text: string): { offset: number; reason: string } | undefined {
  const open: Open[] = [];
  let expected: Expected = "a value";
  for (let offset = 0; ; ) {
    while (" \t\n\r".includes(text[offset] ?? "end")) offset++;
    if (expected === "the end" && offset === text.length) return undefined;
    const token = tokenAt(text, offset);
    const next = follow(token, expected, open);
    if (next === undefined) {
      const found = offset < text.length ? JSON.stringify(text[offset]) : "end";
      return { offset, reason: `unexpected ${found}, expected ${expected}` };
    }
    const reason = problemOfToken(token, open);
    if (reason !== undefined) return { offset, reason };
    expected = next;
    offset += token.length;
  }
}

/** What may come after the token; undefined when the token itself is not expected. */
function follow(token: string, expected: Expected, open: Open[]): Expected | undefined {
  const kind = kindOf(token);
  const next = (grammar[expected] as Partial<Record<string, Expected | "done">>)[kind];
  if (next === undefined) return undefined;
  if (kind === "[" || kind === "{") open.push({ bracket: kind });
  if (kind === "]" || kind === "}") open.pop();
  const inner = open.at(-1);
  if (inner !== undefined && next === '":"') inner.key = token;
  return next === "done" ? afterValue(inner?.bracket) : next;
}

function kindOf(token: string): string {
  if (punctuation.includes(token)) return token;
  return token.startsWith('"') ? "string" : "scalar";
}

function afterValue(bracket: string | undefined): Expected {
  if (bracket === undefined) return "the end";
  return bracket === "[" ? '"," or "]"' : '"," or "}"';
}

/** A bracket, comma, colon, whole string or other scalar; "" where there is none. */
function tokenAt(text: string, offset: number): string {
  const first = text.charAt(offset);
  if (punctuation.includes(first)) return first;
  if (first !== '"') return scalarAt(text, offset);
  const string = text.slice(offset, endOfString(text, offset) + 1);
  try {
    JSON.parse(string);
    return string;
  } catch {
    return "";
  }
}

/**
 * The offset of the quote that ends the string beginning at `start`; the text's length without one. Not a
 * regular expression, because a repeated group exhausts V8's stack after some millions of escapes.
 */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text[at - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

function problemOfToken(token: string, open: readonly Open[]): string | undefined {
  if (open.length > maxDepth) return `nested more than ${maxDepth} levels deep`;
  if (!/^[-\d]/.test(token)) return undefined;
  const key = open.findLast(({ bracket }) => bracket === "{")?.key;
  const ofKey = key === undefined ? "" : ` of key ${shortened(key, 80)}`;
  const subject = `number ${shortened(token, 80)}${ofKey}`;
  const value = Number(token);
  if (!Number.isFinite(value)) return `${subject} is out of range`;
  if (canKeepDigits() || !isChanged(value, token)) return undefined;
  return `${subject} has more digits than this JavaScript engine can keep: it has no JSON.rawJSON`;
}

function scalarAt(text: string, offset: number): string {
  const scalar = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;
  scalar.lastIndex = offset;
  return scalar.exec(text)?.[0] ?? "";
}

function position(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}
