import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { identifiers, type ProvingTest } from "./test-names.ts";

/** The page with the claims, relative to the repository. */
export const securityPage = "docs/operations/security.md";

/** The row of a claim: identifier, text and generated links to tests. */
const row = /^\| (S-\d{3}) \| (.+) \|(.*)\|$/gm;

/** Tests that Vitest cannot list without a cluster, because functions declare them. */
const scenarios = "e2e/cluster/scenarios";

/** The tests of the cluster scenarios that name claims. */
export function scenarioTests(root: string): ProvingTest[] {
  return readdirSync(join(root, scenarios))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => {
      const text = readFileSync(join(root, scenarios, name), "utf8");
      const names = [...text.matchAll(/\btest\("([^"]+)"/g)].map(([, each]) => each).join("\n");
      return { file: `${scenarios}/${name}`, name: scenarios, ids: identifiers(names) };
    });
}

/** The page with links to each claim's tests in the last column. */
export function renderSecurityPage(root: string, tests: readonly ProvingTest[]): string {
  const page = readFileSync(join(root, securityPage), "utf8");
  return page.replaceAll(row, (_, id: string, claim: string) => {
    const files = tests.filter(({ ids }) => ids.includes(id)).map(({ file }) => file);
    const links = [...new Set(files)].map(
      (file) => `[${file}](${relative(dirname(securityPage), file)})`,
    );
    return `| ${id} | ${claim} | ${links.join("<br>")} |`;
  });
}

/** Claims without a test, and tests that name an unknown claim: one line each. */
export function securityProblems(root: string, tests: readonly ProvingTest[]): string[] {
  const page = readFileSync(join(root, securityPage), "utf8");
  const claimed = new Set([...page.matchAll(row)].map(([, id]) => id ?? ""));
  const proven = new Set(tests.flatMap(({ ids }) => ids).filter((id) => id.startsWith("S-")));
  const bare = [...claimed].filter((id) => !proven.has(id));
  const stray = [...proven].filter((id) => !claimed.has(id));
  return [
    ...bare.map((id) => `${securityPage}: ${id} has no test`),
    ...stray.map((id) => `a test names ${id}, which is not a claim of ${securityPage}`),
  ];
}
