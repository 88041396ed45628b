import { readFile, writeFile } from "node:fs/promises";

/** A table; every column but the first is of numbers. Without rows there is none. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const rule = line(head.map((_, n) => (n === 0 ? "---" : "---:")));
  return [line(head), rule, ...rows.map(line)].join("\n");
}

/** A paragraph in lines of at most 100 columns. */
export function wrapParagraph(text: string): string {
  return text.replaceAll(/(?=.{101})(.{1,100}) /g, "$1\n");
}

/** An item of a list, wrapped. */
export function wrapItem(text: string): string {
  return `- ${text.replaceAll(/(?=.{99})(.{1,98}) /g, "$1\n  ")}`;
}

/** Replaces a section of a page file. @throws Error when the page has no such section */
export async function replaceSection(path: string, name: string, text: string): Promise<void> {
  await writeFile(path, withSection(await readFile(path, "utf8"), name, text));
}

/**
 * The page with another text between `<!-- NAME -->` and `<!-- end of NAME -->`.
 * @throws Error when it has no such section
 */
export function withSection(page: string, name: string, text: string): string {
  const section = new RegExp(`(<!-- ${name} -->)[\\s\\S]*(<!-- end of ${name} -->)`);
  if (!section.test(page)) throw new Error(`${page.split("\n")[0]}: no section ${name}`);
  return page.replace(section, (_, from, to) => `${from}\n\n${text}\n\n${to}`);
}

/** A fenced block of code. */
export interface CodeBlock {
  /** What follows the fence: the language, then words of our own, which forges do not show. */
  readonly info: string;
  readonly text: string;
}

/** The fenced blocks of a page, in order. */
export function codeBlocks(page: string): CodeBlock[] {
  const fenced = page.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm);
  return Array.from(fenced, ([, info = "", text = ""]) => ({ info: info.trim(), text }));
}
