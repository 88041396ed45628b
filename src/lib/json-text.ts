import type { Json } from "./json.ts";

/** JSON text that does not parse; `line` and `column` count from 1 and point at the first character that is wrong. */
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

/** How deep objects and arrays may be nested: far more than any configuration, far less than any stack. */
const defaultMaxDepth = 100;

/**
 * Parses JSON text, as `JSON.parse` does: of a key that occurs twice the last value counts, as in
 * Go. Nesting is bounded, so that whatever is accepted can be walked and printed recursively. A number beyond the
 * range of a double is refused, as Go does: JavaScript reads it as Infinity and prints that as null.
 *
 * @throws JsonTextError
 */
export function parseJsonText(text: string, options: { maxDepth?: number } = {}): Json {
  const maxDepth = options.maxDepth ?? defaultMaxDepth;
  const deep = offsetOfDepth(text, maxDepth + 1);
  if (deep !== undefined) {
    throw new JsonTextError(`nested more than ${maxDepth} levels deep`, position(text, deep));
  }
  const value = parsed(text);
  const infinite = mayBeInfinite.test(text) ? findInfinite(text) : undefined;
  if (infinite === undefined) return value;
  throw new JsonTextError(infinite.reason, position(text, infinite.offset));
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    const { offset, reason } = findJsonError(text);
    throw new JsonTextError(reason, position(text, offset));
  }
}

/** What a number too large for a double has: an exponent of two digits or more, or 300 digits. Strings may have it, too. */
const mayBeInfinite = /[0-9][eE]\+?[0-9]{2}|[0-9]{300}/;

const scalarPattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;
const spacePattern = /[ \t\n\r]*/y;

const structurePattern = /["[{\]}]/g;

/** The offset of the bracket that opens the given depth; brackets in strings do not count. */
function offsetOfDepth(text: string, limit: number): number | undefined {
  let depth = 0;
  for (let at = nextOf(structurePattern, text, 0); at >= 0; ) {
    const token = text[at];
    if (token === '"') at = endOfString(text, at);
    else depth += token === "[" || token === "{" ? 1 : -1;
    if (depth === limit) return at;
    at = nextOf(structurePattern, text, at + 1);
  }
  return undefined;
}

/**
 * The offset of the quote that ends the string beginning at `start`; that of the text's end without
 * one. By hand, as a pattern with a repeated group exhausts V8's stack on some millions of escapes.
 */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text[at - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

function nextOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** What may come next in a scan. */
type Expect = "value" | "value or ]" | "key" | "key or }" | "colon" | "comma or end";

interface Scan {
  readonly text: string;
  offset: number;
  expect: Expect;
  /** The brackets that are open, innermost last. */
  readonly open: ("[" | "{")[];
}

/** The first place at which text stops being JSON. Only called on text that is known to be none. */
function findJsonError(text: string): { offset: number; reason: string } {
  const scan: Scan = { text, offset: 0, expect: "value", open: [] };
  for (;;) {
    scan.offset += matchLength(spacePattern, scan) ?? 0;
    if (scan.offset >= text.length || !advance(scan)) break;
  }
  const found = text.slice(scan.offset, scan.offset + 1);
  const what = found === "" ? "unexpected end" : `unexpected ${JSON.stringify(found)}`;
  return { offset: scan.offset, reason: `${what}, expected ${expectation(scan)}` };
}

/** The first number that is no finite double, in text that is known to be JSON. */
function findInfinite(text: string): { offset: number; reason: string } | undefined {
  const scan: Scan = { text, offset: 0, expect: "value", open: [] };
  /** The key that was read last in each object that is open, by its depth. */
  const keys: string[] = [];
  for (;;) {
    scan.offset += matchLength(spacePattern, scan) ?? 0;
    const { offset, expect } = scan;
    if (offset >= text.length || !advance(scan)) return undefined;
    const token = text.slice(offset, scan.offset);
    if (expect.startsWith("key")) keys[scan.open.length] = token;
    else if (/^[-0-9]/.test(token) && !Number.isFinite(Number(token))) {
      const key = keys[scan.open.lastIndexOf("{") + 1];
      const place = key === undefined ? "" : ` of key ${shortened(key)}`;
      return { offset, reason: `number ${shortened(token)}${place} is out of range` };
    }
  }
}

function shortened(token: string): string {
  return token.length > 80 ? `${token.slice(0, 80)}…` : token;
}

function expectation(scan: Scan): string {
  const inner = scan.open.at(-1);
  if (scan.expect === "colon") return '":"';
  if (scan.expect === "key") return "a key in double quotes";
  if (scan.expect === "key or }") return 'a key in double quotes or "}"';
  if (scan.expect === "comma or end") {
    return inner === undefined ? "the end" : `"," or "${inner === "[" ? "]" : "}"}"`;
  }
  return scan.expect === "value" ? "a value" : 'a value or "]"';
}

/** Takes one token; false when it does not fit. */
function advance(scan: Scan): boolean {
  switch (scan.expect) {
    case "colon":
      return take(scan, { length: scan.text[scan.offset] === ":" ? 1 : undefined, next: "value" });
    case "key":
    case "key or }":
      if (scan.expect === "key or }" && scan.text[scan.offset] === "}") return close(scan);
      return take(scan, { length: stringLength(scan), next: "colon" });
    case "comma or end":
      return takeSeparator(scan);
    default:
      return takeValue(scan);
  }
}

function takeValue(scan: Scan): boolean {
  const c = scan.text[scan.offset];
  if (c === "]" && scan.expect === "value or ]") return close(scan);
  if (c === "[" || c === "{") {
    scan.open.push(c);
    return take(scan, { length: 1, next: c === "[" ? "value or ]" : "key or }" });
  }
  const length = c === '"' ? stringLength(scan) : matchLength(scalarPattern, scan);
  return take(scan, { length, next: "comma or end" });
}

function takeSeparator(scan: Scan): boolean {
  const c = scan.text[scan.offset];
  const inner = scan.open.at(-1);
  if (c === "," && inner !== undefined) {
    return take(scan, { length: 1, next: inner === "[" ? "value" : "key" });
  }
  return (c === "]" && inner === "[") || (c === "}" && inner === "{") ? close(scan) : false;
}

function close(scan: Scan): boolean {
  scan.open.pop();
  return take(scan, { length: 1, next: "comma or end" });
}

function take(scan: Scan, token: { length: number | undefined; next: Expect }): boolean {
  if (token.length === undefined) return false;
  scan.offset += token.length;
  scan.expect = token.next;
  return true;
}

/** The length of the string that begins here, quotes included; undefined when there is no valid one. */
function stringLength({ text, offset }: Scan): number | undefined {
  if (text[offset] !== '"') return undefined;
  const string = text.slice(offset, endOfString(text, offset) + 1);
  try {
    JSON.parse(string);
    return string.length;
  } catch {
    return undefined;
  }
}

function matchLength(pattern: RegExp, scan: Scan): number | undefined {
  pattern.lastIndex = scan.offset;
  return pattern.exec(scan.text)?.[0].length;
}

function position(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}
