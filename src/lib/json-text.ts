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
 * Go. Nesting is bounded, so that whatever is accepted can be walked and printed recursively.
 *
 * @throws JsonTextError
 */
export function parseJsonText(text: string, options: { maxDepth?: number } = {}): Json {
  const maxDepth = options.maxDepth ?? defaultMaxDepth;
  const deep = offsetOfDepth(text, maxDepth + 1);
  if (deep !== undefined) {
    throw new JsonTextError(`nested more than ${maxDepth} levels deep`, position(text, deep));
  }
  try {
    return JSON.parse(text) as Json;
  } catch {
    const { offset, reason } = findJsonError(text);
    throw new JsonTextError(reason, position(text, offset));
  }
}

const stringPattern =
  /"[ !#-[\]-\u{10ffff}]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\u{10ffff}]*)*"/uy;
const scalarPattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;
const spacePattern = /[ \t\n\r]*/y;

/** Whole strings, so that brackets in them do not count, and brackets. */
const nestingPattern = /"[^"\\]*(?:\\.[^"\\]*)*"?|[[{\]}]/gs;

/** The offset of the bracket that opens the given depth. */
function offsetOfDepth(text: string, limit: number): number | undefined {
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(nestingPattern)) {
    if (token === "[" || token === "{") depth++;
    else if (token === "]" || token === "}") depth--;
    if (depth === limit) return index;
  }
  return undefined;
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
      return take(scan, { length: matchLength(stringPattern, scan), next: "colon" });
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
  const pattern = c === '"' ? stringPattern : scalarPattern;
  return take(scan, { length: matchLength(pattern, scan), next: "comma or end" });
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

function matchLength(pattern: RegExp, scan: Scan): number | undefined {
  pattern.lastIndex = scan.offset;
  return pattern.exec(scan.text)?.[0].length;
}

function position(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: offset - lineStart + 1 };
}
