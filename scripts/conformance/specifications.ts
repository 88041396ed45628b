import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { requirements as multiNetwork } from "../../e2e/npwg-conformance/requirements/all.ts";
import { withSection, wrapItem, wrapParagraph } from "../../e2e/support/markdown.ts";
import type { ProvingTest } from "./test-names.ts";

/** A specification whose requirements are numbered. */
export interface Specification {
  /** Prefix of its identifiers. */
  readonly prefix: string;
  /** A file, relative to the repository, or the requirements themselves. */
  readonly requirements: string | readonly Requirement[];
  /** The page with the section `tests`. */
  readonly page: string;
  /** Another table of the page says what the requirements are. */
  readonly isListed?: true;
}

/** One requirement, paraphrased. */
interface Requirement {
  readonly id: string;
  readonly level: "MUST" | "SHOULD" | "MAY" | "none";
  /** The side that it binds: RT runtime, PL plugin, DP delegating plugin, CF author of configurations. */
  readonly side?: string;
  readonly text: string;
  /** Why it needs no test. */
  readonly exception?: string;
}

/** The specifications that Plexus implements. */
export const specifications: readonly Specification[] = [
  {
    prefix: "R-",
    requirements: "e2e/conformance/requirements-cni.json",
    page: "docs/reference/conformance-cni.md",
  },
  {
    prefix: "N-",
    requirements: multiNetwork.filter(({ kind }) => kind === "standard"),
    page: "docs/reference/conformance-npwg.md",
    isListed: true,
  },
  {
    prefix: "D-",
    requirements: "e2e/conformance/requirements-devices.json",
    page: "docs/reference/conformance-devices.md",
  },
  {
    prefix: "M-",
    requirements: "e2e/conformance/requirements-docker.json",
    page: "docs/reference/conformance-docker.md",
  },
];

/** Requirements without test or explanation, and tests that name unknown ones: one line each. */
export function problemsOf(
  root: string,
  specification: Specification,
  tests: readonly ProvingTest[],
): string[] {
  const requirements = readRequirements(root, specification);
  const known = new Set(requirements.map(({ id }) => id));
  const proven = new Set(tests.flatMap(({ ids }) => ids));
  const duplicates = requirements.filter(
    ({ id }, index) => requirements.findIndex((r) => r.id === id) < index,
  );
  const bare = requirements.filter((r) => !r.exception && !proven.has(r.id));
  return [
    ...duplicates.map(({ id }) => `${specification.page}: ${id} is defined twice`),
    ...bare.map(({ id, level }) => `${id} (${level}) has neither a test nor an explanation`),
    ...tests.flatMap(({ file, name, ids }) =>
      ids
        .filter((id) => id.startsWith(specification.prefix) && !known.has(id))
        .map((id) => `${file}: test "${name}" names ${id}, which is not a requirement`),
    ),
  ];
}

/** The page, with every requirement and its tests in the section `tests`. */
export function renderPage(
  root: string,
  specification: Specification,
  tests: readonly ProvingTest[],
): string {
  const requirements = readRequirements(root, specification);
  const { page, isListed = false } = specification;
  const proofOf = (requirement: Requirement): string => proof(requirement, tests, dirname(page));
  const lines = isListed
    ? [...Map.groupBy(requirements, proofOf)].map(([proven, of]) =>
        wrapItem(`${of.map(({ id }) => id).join(", ")}: ${cell(proven)}`),
      )
    : [
        ["Requirement", "What it says", "Tests"],
        ["---", "---", "---"],
        ...requirements.map((requirement) => {
          const { id, level, side = "", text } = requirement;
          return [`${id} ${level} ${side}`.trimEnd(), text, proofOf(requirement)].map(cell);
        }),
      ].map((row) => `| ${row.join(" | ")} |`);
  const section = `${wrapParagraph(summary(requirements))}\n\n${lines.join("\n")}`;
  return withSection(readFileSync(join(root, page), "utf8"), "tests", section);
}

function readRequirements(root: string, { requirements }: Specification): readonly Requirement[] {
  if (typeof requirements !== "string") return requirements;
  return JSON.parse(readFileSync(join(root, requirements), "utf8"));
}

function summary(requirements: readonly Requirement[]): string {
  const binding = requirements.filter(({ level }) => level !== "MAY");
  const excepted = binding.filter(({ exception }) => exception !== undefined).length;
  const others =
    excepted === 0 ? "" : `. The table explains why the other ${excepted} need no test`;
  return (
    `Of ${binding.length} requirements at the levels MUST and SHOULD, tests prove ` +
    `${binding.length - excepted}${others}.`
  );
}

/** The explanation, and a link to each file with its tests. */
function proof(requirement: Requirement, tests: readonly ProvingTest[], from: string): string {
  const proving = tests.filter(({ ids }) => ids.includes(requirement.id));
  const links = [...new Set(proving.map(({ file }) => file))].map(
    (file) => `[${file}](${relative(from, file)})`,
  );
  const { exception } = requirement;
  return [...(exception === undefined ? [] : [`*${exception}*`]), ...links].join("\n");
}

/** Escapes a table cell. */
function cell(text: string): string {
  return text
    .replaceAll("|", "\\|")
    .replaceAll(/<(?!br>)/g, "&lt;")
    .replaceAll("\n", "<br>");
}
