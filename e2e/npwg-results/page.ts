import { markdownTable } from "../support/markdown.ts";
import type { Finding } from "./run-suite.ts";

/** The findings of one implementation. */
export interface Column {
  readonly name: string;
  readonly findings: readonly Finding[];
}

const marks: Readonly<Record<Finding["verdict"], string>> = {
  passed: "yes",
  failed: "**no**",
  absent: "absent",
  "not testable": "–",
};

/** The totals and the table: what a run is compared with. */
export function resultTables(columns: readonly Column[]): string {
  return [totals(columns), ...(["standard", "multus"] as const).map((kind) => table(columns, kind))]
    .join("\n\n")
    .trim();
}

/** Each failure with its reason. Requirements that fail in the same way share an entry. */
export function failureList(
  columns: readonly Column[],
  decisions: Readonly<Record<string, string>>,
): string {
  const [first] = columns;
  const entries = (first?.findings ?? []).flatMap(({ id }) => {
    const lines = reasonLines(id, columns);
    if (lines.length === 0) return [];
    const decision = decisions[id] === undefined ? [] : [`- On purpose: ${decisions[id]}`];
    return [{ id, text: [...lines, ...decision].join("\n") }];
  });
  const sections = [...Map.groupBy(entries, ({ text }) => text)].flatMap(([text, same]) => [
    `**${same.map(({ id }) => id).join(", ")}**`,
    text,
  ]);
  return sections.join("\n\n");
}

/** A line for each reason, with the implementations that fail for it. */
function reasonLines(id: string, columns: readonly Column[]): string[] {
  const reasons = columns.flatMap(({ name, findings }) => {
    const finding = findings.find((each) => each.id === id);
    const isFailure = finding?.verdict === "failed" || finding?.verdict === "absent";
    return isFailure ? [{ name, reason: readable(finding.reason) }] : [];
  });
  return [...Map.groupBy(reasons, ({ reason }) => reason)].map(
    ([reason, same]) => `- ${namesOf(same, columns)}: ${code(reason)}`,
  );
}

/** The columns' names, or only the product's if all of its columns are among them. */
function namesOf(same: readonly { readonly name: string }[], columns: readonly Column[]): string {
  const products = Map.groupBy(same, ({ name }) => productOf(name));
  const names = [...products].flatMap(([product, own]) => {
    const all = columns.filter(({ name }) => productOf(name) === product);
    return own.length === all.length ? [product] : own.map(({ name }) => name);
  });
  return names.join(", ");
}

function productOf(name: string): string {
  return name.replace(/ .*/, "");
}

function totals(columns: readonly Column[]): string {
  const kinds = Object.keys(marks) as Finding["verdict"][];
  const rows = columns.map(({ name, findings }) => {
    const counts = kinds.map((kind) => findings.filter(({ verdict }) => verdict === kind).length);
    return [name, ...counts.map(String)];
  });
  return markdownTable(["implementation", ...kinds], rows);
}

const titles = {
  standard: "### The standard",
  multus: "### What users of Multus rely on beyond the standard",
};

/** A column for each product; its implementations are named where they differ. */
function table(columns: readonly Column[], kind: Finding["kind"]): string {
  const products = [...Map.groupBy(columns, ({ name }) => productOf(name))];
  const names = products.map(([product]) => product);
  const listed = (columns[0]?.findings ?? []).filter((each) => each.kind === kind);
  const rows = listed.map(({ id, level, text }) => {
    const cells = products.map(([product, own]) => verdictOf(id, product, own));
    return [level === "none" ? id : `${id} ${level}`, text.replaceAll("|", "\\|"), ...cells];
  });
  const head = ["requirement", "what it says", ...names];
  const lines = [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  return `${titles[kind]}\n\n${lines.join("\n")}`;
}

function verdictOf(id: string, product: string, columns: readonly Column[]): string {
  const found = columns.map(({ name, findings }) => {
    const finding = findings.find((each) => each.id === id);
    return { name, mark: finding === undefined ? "" : marks[finding.verdict] };
  });
  const [first] = new Set(found.map(({ mark }) => mark));
  if (found.every(({ mark }) => mark === first)) return first ?? "";
  return found.map(({ name, mark }) => `${name.slice(product.length + 1)}: ${mark}`).join(", ");
}

/** Names that differ in each run are replaced by what they name. Multus repeats its whole input. */
function readable(reason: string): string {
  return reason
    .replace(/'ContainerID:.* ERRORED: (.*?) ?': StdinData: .*/s, "$1")
    .replaceAll(/\b[0-9a-f]{64}\b/g, "CONTAINER")
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "UID")
    .replaceAll(/\/tmp\/npwg-conformance-\w{6}/g, "DIR")
    .replaceAll(/\bnpwg-[0-9a-f]{8}\b/g, "POD")
    .replaceAll(/\bnpwg-[0-9a-f]{6}\b/g, "NAMESPACE");
}

function code(text: string): string {
  return `\`${text.replaceAll("`", "'")}\``;
}
