/** Phrases that readers have to read twice, and what to write instead. A space stands for any gap. */
const phrases: ReadonlyMap<string, string> = new Map([
  ["whoever", "name the person or the program"],
  [`(?<!["=/])nobody(?!")`, "no user, no process, no caller"],
  ["(?:is|are|was|were) away", "unavailable, not running"],
  ["pass(?:es|ed|ing)? over", "skip"],
  ["(?:goes|go|going|went) on(?= with|[,.;:]| until| without| after)", "continue"],
  ["(?:is|are|was|were) told", "say who passes what to whom"],
  ["(?:is|are) none of", "say what it does not do"],
  ["becomes? of (?:it|them|the|each|a)", "say what happens to it"],
  ["(?:made|makes?) up for", "retry"],
  ["by the hands of", "during, by"],
  ["of (?:its|their|his) own", "separate, private"],
  ["of (?:ours|theirs)", "of Plexus, or name the owner"],
  ["(?:for )?so long(?= (?:as|a)|[,.;:])", "as long as, during"],
  ["for ever", "forever, without a limit"],
  ["to who", "if you may"],
  ["knows? nothing of", "does not know"],
  ["has no word", "does not say"],
  ["whereof|thereof|wherefrom", "of which"],
  ["(?:sees|looks) (?:to it|after)", "checks, handles"],
  ["not looked for", "not searched"],
  ["comes? to (?:nothing|it|an end)", "ends, fails"],
  ["in the place of", "instead of, atomically replaces"],
]);

/** Between two words: spaces, a wrapped line of prose, of a comment, or of a concatenated string. */
const gap = String.raw`(?:[ \t]+|[ \t]*["\x60]?(?: \+)?\n[ \t>]*(?:\*|\/\/|#|["\x60])?[ \t]*)`;

const patterns = [...phrases].map(([phrase, instead]) => ({
  pattern: new RegExp(String.raw`\b(?:${phrase.replaceAll(" ", gap)})\b`, "gi"),
  instead,
}));

/** The longest line of a Markdown document. */
const maxColumns = 100;

/** Private phrases and long lines of a file: `PATH:LINE: PROBLEM` each. */
export function proseProblems(path: string, text: string): string[] {
  const isMarkdown = path.endsWith(".md");
  const prose = isMarkdown ? proseOf(text) : text;
  const found = [...phraseProblems(prose), ...(isMarkdown ? longLines(text) : [])];
  return found
    .toSorted((a, b) => a.line - b.line)
    .map(({ line, problem }) => `${path}:${line}: ${problem}`);
}

interface Problem {
  readonly line: number;
  readonly problem: string;
}

function phraseProblems(text: string): Problem[] {
  return patterns.flatMap(({ pattern, instead }) =>
    [...text.matchAll(pattern)].map(({ 0: phrase, index }) => ({
      line: text.slice(0, index).split("\n").length,
      problem: `"${phrase.replaceAll(/\s+/g, " ")}": write instead: ${instead}`,
    })),
  );
}

/** Code, its fences, and the targets of links blanked out, so that lines keep their numbers. */
function proseOf(markdown: string): string {
  return markdown.replaceAll(/^```[\s\S]*?^```|`[^`\n]*`|\]\([^)]*\)/gm, (code) =>
    code.replaceAll(/[^\n]/g, "x"),
  );
}

/** Lines of paragraphs and lists that are too long although they could be broken at a space. */
function longLines(markdown: string): Problem[] {
  const lines = markdown
    .replaceAll(/^ *```[\s\S]*?^ *```|^<!--[\s\S]*?-->/gm, (code) => code.replaceAll(/.+/g, ""))
    .split("\n");
  return lines.flatMap((line, index) => {
    if (line.length <= maxColumns || /^\s*(?:\||#|!\[)/.test(line)) return [];
    const text = line
      .replace(/^\s*(?:[-*]|\d+\.)?\s*/, (marker) => "x".repeat(marker.length))
      .replaceAll(/`[^`]*`/g, (code) => "x".repeat(code.length));
    if (!text.includes(" ")) return [];
    return [{ line: index + 1, problem: `${line.length} columns; at most ${maxColumns}` }];
  });
}
