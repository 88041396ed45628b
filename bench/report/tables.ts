/** A Markdown table; every column but the first is of numbers. Without rows there is none. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return [];
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const rule = line(head.map((_, n) => (n === 0 ? "---" : "---:")));
  return [line(head), rule, ...rows.map(line)];
}
