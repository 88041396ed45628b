import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A page whose promises name the tests that keep them. */
interface Page {
  readonly path: string;
  /** Headings of sections that promise nothing. */
  readonly sections: readonly string[];
  /** First words of other paragraphs that promise nothing. */
  readonly openings: readonly string[];
}

/** Skipped: sections about the tests, and descriptions of attackers. */
const pages: readonly Page[] = [
  {
    path: "docs/operations/reliability.md",
    sections: [
      "Reliability",
      "What is not promised",
      "The fault matrix",
      "How a run works",
      "Multus in the same runs",
      "Results",
      "How power losses are tested",
      "The soak test",
    ],
    openings: ["On OpenShift its account needs the SCC"],
  },
  {
    path: "docs/operations/security.md",
    sections: [],
    openings: ["These are trusted", "An attacker", "A plugin is root on the node"],
  },
];

const link = /\]\(([^)#\s]+)\)/g;

/** Code, tables and comments. Tables have a column of tests, or are results. */
const notProse = /^```[\s\S]*?^```$|^ *\|.*$|^<!--.*-->$/gm;

/** Promises without a link to a test, and links to missing tests: one line each. */
export function promiseProblems(root: string): string[] {
  return pages.flatMap((page) => problemsOf(root, page));
}

function problemsOf(root: string, { path, sections, openings }: Page): string[] {
  const text = readFileSync(join(root, path), "utf8").replaceAll(notProse, "");
  const promising = text
    .split(/^(?=#+ )/m)
    .filter((section) => !sections.includes(/^#+ (.+)$/m.exec(section)?.[1] ?? ""))
    .flatMap(blocksOf)
    .filter((block) => !openings.some((opening) => block.startsWith(opening)));
  const bare = promising.filter((block) => !linkedFiles(block).some(isTest));
  const linked = new Set(linkedFiles(text).filter(isTest));
  const gone = [...linked].filter((file) => !existsSync(join(root, dirname(path), file)));
  return [
    ...bare.map((block) => `${path}: no test is named by "${block.slice(0, 60)}"`),
    ...gone.map((file) => `${path}: ${file} does not exist`),
  ];
}

/** Paragraphs and list items, except for introductions, which end with a colon. */
function blocksOf(section: string): string[] {
  return section
    .split(/\n{2,}|\n(?=(?:-|\d+\.) )/)
    .map((block) => block.replaceAll(/\s+/g, " ").trim())
    .filter((block) => block !== "" && !block.startsWith("#") && !block.endsWith(":"));
}

function linkedFiles(text: string): string[] {
  return [...text.matchAll(link)].map(([, file]) => file ?? "");
}

function isTest(file: string): boolean {
  return file.endsWith(".test.ts") || file.includes("e2e/cluster/scenarios/");
}
