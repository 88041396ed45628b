/** A wrong name of one pod must not delay others where there are thousands of names. */
const comparedMax = 200;

/** `; did you mean NAME?` with the most similar of the known names; empty if none is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  const of = pairsOf(word);
  const similar = known
    .slice(0, comparedMax)
    .map((name) => ({ name, likeness: likeness(of, pairsOf(name)) }))
    .filter((each) => each.likeness >= 0.5)
    .toSorted((a, b) => b.likeness - a.likeness);
  return similar[0] === undefined ? "" : `; did you mean ${similar[0].name}?`;
}

/** Neighbouring letters, with those of the two ends: few change with a typing error. */
function pairsOf(word: string): Set<string> {
  const letters = ` ${word.toLowerCase()} `;
  return new Set(Array.from(letters.slice(1), (letter, i) => `${letters[i]}${letter}`));
}

/** From 0 to 1. */
function likeness(a: Set<string>, b: Set<string>): number {
  const common = [...a].filter((pair) => b.has(pair));
  return (2 * common.length) / (a.size + b.size);
}
