import { type MutantSource, oneLineOf } from "./mutant.ts";

/** A mutant of the shim, and the file's text with it. */
export interface ShimMutant extends MutantSource {
  readonly text: string;
}

interface Change {
  /** In the text, from 0. */
  readonly at: number;
  readonly before: string;
  readonly after: string;
}

const inverse: Readonly<Record<string, string>> = {
  "&&": "||",
  "||": "&&",
  "==": "!=",
  "!=": "==",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
};

const operator = / (&&|\|\||[=!<>]=|[<>])(?=\s)/;

/**
 * The mutants of a C file: each condition always or never true, each operator of a condition
 * inverted or moved by one, and each call whose result is not used left out.
 */
export function shimMutants(file: string, text: string): ShimMutant[] {
  const code = withoutTexts(text);
  const changes = [...conditions(code), ...operators(code), ...calls(code)];
  return changes
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, before, after }) => {
      const original = text.slice(at, at + before.length);
      const replacement = after.replace(before, () => original);
      const lineStart = text.lastIndexOf("\n", at) + 1;
      const mutated = text.slice(0, at) + replacement + text.slice(at + before.length);
      return {
        file,
        line: text.slice(0, at).split("\n").length,
        before: oneLineOf(text.slice(lineStart, endOfLine(text, at + before.length))),
        after: oneLineOf(mutated.slice(lineStart, endOfLine(mutated, at + replacement.length))),
        text: mutated,
      };
    });
}

/** The same text with comments, strings and preprocessor lines blanked, so that positions hold. */
function withoutTexts(text: string): string {
  const texts = /\/\*[\s\S]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^#.*$/gm;
  return text.replaceAll(texts, (found) => found.replaceAll(/[^\n]/g, "x"));
}

function* conditions(code: string): Iterable<Change> {
  for (const { index, 0: keyword } of code.matchAll(/\bif \(/g)) {
    const at = index + keyword.length - 1;
    const before = code.slice(at, closing(code, at) + 1);
    yield { at, before, after: `(0 && ${before})` };
    // Of the others, the operators' mutants say more.
    if (!operator.test(before)) yield { at, before, after: `(1 || ${before})` };
  }
}

function* operators(code: string): Iterable<Change> {
  for (const { index, 1: before = "" } of code.matchAll(new RegExp(operator, "g"))) {
    yield { at: index + 1, before, after: inverse[before] ?? before };
  }
}

function* calls(code: string): Iterable<Change> {
  for (const { index, 1: indent = "", 2: call = "" } of code.matchAll(/^(\t+)(\w+\(.*\);)$/gm)) {
    yield { at: index + indent.length, before: call, after: ";" };
  }
}

/** The position of the parenthesis that closes the one at `open`. */
function closing(code: string, open: number): number {
  let depth = 0;
  for (let at = open; at < code.length; at++) {
    if (code[at] === "(") depth++;
    if (code[at] === ")" && --depth === 0) return at;
  }
  throw new Error(`no parenthesis closes the one at ${open}`);
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}
