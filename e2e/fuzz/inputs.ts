import fc from "fast-check";
import type { Target } from "./target.ts";

/** One change of a text; positions count modulo its length. */
interface Edit {
  readonly kind: "insert" | "delete" | "repeat";
  readonly at: number;
  readonly length: number;
  readonly token: string;
  readonly times: number;
}

/**
 * Inputs of a target: valid ones, and those and the corpus's with some edits. Tokens and parts of a text are
 * put in once or thousands of times over, which is what finds patterns that backtrack.
 */
export function inputsOf(target: Target, corpus: readonly string[]): fc.Arbitrary<string> {
  const base =
    corpus.length === 0 ? target.inputs : fc.oneof(target.inputs, fc.constantFrom(...corpus));
  const edit: fc.Arbitrary<Edit> = fc.record({
    kind: fc.constantFrom("insert", "insert", "delete", "repeat"),
    at: fc.nat(),
    length: fc.oneof(fc.nat(8), fc.nat(200)),
    token: fc.constantFrom(...target.tokens),
    times: fc.oneof(
      { weight: 8, arbitrary: fc.integer({ min: 1, max: 4 }) },
      { weight: 1, arbitrary: fc.nat(target.maxLength) },
    ),
  });
  const edited = fc
    .tuple(base, fc.array(edit, { minLength: 1, maxLength: 6 }))
    .map(([text, edits]) => edits.reduce((now, next) => apply(now, next, target.maxLength), text));
  return fc.oneof({ weight: 1, arbitrary: target.inputs }, { weight: 4, arbitrary: edited });
}

function apply(text: string, edit: Edit, maxLength: number): string {
  const at = edit.at % (text.length + 1);
  const part = text.slice(at, at + edit.length);
  const rest = text.slice(at + (edit.kind === "delete" ? edit.length : 0));
  const piece = { insert: edit.token, delete: "", repeat: part }[edit.kind];
  const room = Math.max(0, maxLength - text.length);
  const times = piece === "" ? 0 : Math.min(edit.times, Math.floor(room / piece.length));
  return (text.slice(0, at) + piece.repeat(times) + rest).slice(0, maxLength);
}
