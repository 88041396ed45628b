/** A wrong name of one pod must not delay others where there are thousands of names. */
const comparedMax = 200;
/** Nothing is named by more. */
const lengthMax = 255;

/** `; did you mean NAME?` with the most similar of the known names; empty if none is similar. */
export function didYouMean(word: string, known: readonly string[]): string {
  if (word.length > lengthMax) return "";
  const of = pairsOf(word);
  const similar = known
    .slice(0, comparedMax)
    .map((name) => ({ name, likeness: isSwapped(word, name) ? 1 : likeness(of, pairsOf(name)) }))
    .filter((each) => each.likeness >= 0.5)
    .toSorted((a, b) => b.likeness - a.likeness);
  return similar[0] === undefined ? "" : `; did you mean ${similar[0].name}?`;
}

/** Neighbouring letters, with those of the two ends: few change with a typing error. */
function pairsOf(word: string): Set<string> {
  const letters = ` ${word.toLowerCase()} `;
  return new Set(Array.from(letters.slice(1), (letter, i) => `${letters[i]}${letter}`));
}

/** Whether two neighbouring letters are the wrong way round. In a short word, few pairs stay then. */
function isSwapped(word: string, name: string): boolean {
  const at = Array.from(word).findIndex((letter, i) => letter !== name[i]);
  const [first = "", second = ""] = word.slice(Math.max(at, 0));
  return at >= 0 && `${word.slice(0, at)}${second}${first}${word.slice(at + 2)}` === name;
}

/** From 0 to 1. */
function likeness(a: Set<string>, b: Set<string>): number {
  const common = [...a].filter((pair) => b.has(pair));
  return (2 * common.length) / (a.size + b.size);
}
