import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const namedPath = /(?<![\w./-])(?:src|e2e|shim|scripts|bench|deploy|examples|docs)\/[\w./-]*(.?)/g;
/** The benchmark's tables have networks that look like paths. */
const measured = /^<!-- bench -->[\s\S]*?^<!-- end of bench -->/gm;
const code = /^```[\s\S]*?^```$/gm;
const inlineCode = /`[^`\n]*`/g;
/** Where a sentence, an item of a list or a cell of a table ends. */
const sentenceEnd = /(?<=[.:]\)?)\s+(?=[A-Z`\d-])|\n\s*\n|\n\s*(?:[-*]|\d+\.) |\s\|\s/;
const sourceFile = /^(?:src|e2e|scripts|bench|shim)\/[\w./-]+\.(?:ts|c|h)$/;
/** A type, or a name with two words, also of a member or a function: `Life`, `waitUntil()`. */
const identifier = /^(?=.*(?:\(\)$|[a-z][A-Z])|[A-Z][a-z])(?:[A-Za-z_]\w*\.)*#?(\w+)(?:\(\))?$/;
const link = /\]\(([^)\s]+)\)/g;

/** The repository's Markdown documents, relative to its root. */
export function documents(root: string): string[] {
  return globSync("**/*.md", {
    cwd: root,
    exclude: (name) => /^(?:node_modules|dist|\..+)$/.test(name),
  }).toSorted();
}

/** Files and names of their code that are not there, and links that lead nowhere: one line each. */
export function documentProblems(root: string): string[] {
  return documents(root).flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    const prose = text.replaceAll(code, "").replaceAll(inlineCode, "");
    const named = text.replaceAll(link, "").replaceAll(measured, "").matchAll(namedPath);
    const files = [...named]
      .filter(([, next = ""]) => !/[*{…]/.test(next))
      .map(([path, next = ""]) => path.slice(0, path.length - next.length).replace(/[./-]+$/, ""));
    const links = [...prose.matchAll(link)].map(([, target]) => target ?? "");
    return [
      ...files.filter((path) => !existsSync(join(root, path))),
      ...strayNames(root, text),
      ...links.filter((target) => !leadsSomewhere(root, page, target)),
    ].map((missing) => `${page}: ${missing}`);
  });
}

/** Names of code that no source file in the same sentence has. */
function strayNames(root: string, text: string): string[] {
  return text
    .replaceAll(code, "")
    .split(sentenceEnd)
    .flatMap((sentence) => {
      const terms = [...sentence.matchAll(inlineCode)].map(([term]) => term.slice(1, -1));
      const files = terms.filter((term) => sourceFile.test(term) && existsSync(join(root, term)));
      if (files.length === 0) return [];
      const sources = files.map((file) => readFileSync(join(root, file), "utf8")).join("\n");
      const isStray = (term: string): boolean => {
        const [, name] = identifier.exec(term) ?? [];
        return name !== undefined && !new RegExp(`\\b${name}\\b`).test(sources);
      };
      return terms.filter(isStray).map((name) => `${name} is not in ${files.join(", ")}`);
    });
}

function leadsSomewhere(root: string, page: string, target: string): boolean {
  if (/^[a-z]+:/.test(target)) return true;
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? page : normalize(join(dirname(page), path));
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || anchors(readFileSync(join(root, file), "utf8")).has(anchor);
}

/** The anchor that GitHub gives to the first heading with this text on a page. */
export function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-");
}

/** The anchors that GitHub gives to the headings of a page. */
function anchors(text: string): Set<string> {
  const headings = [...text.replaceAll(code, "").matchAll(/^#+ (.+)$/gm)].map(([, each = ""]) =>
    anchor(each),
  );
  const seen = new Map<string, number>();
  return new Set(
    headings.map((heading) => {
      const count = seen.get(heading) ?? 0;
      seen.set(heading, count + 1);
      return count === 0 ? heading : `${heading}-${count}`;
    }),
  );
}
