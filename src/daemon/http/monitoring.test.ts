import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { metricTable } from "./metric-table.ts";
import { createMetrics } from "./metrics.ts";

const root = new URL("../../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

/** Names of the series that plexusd serves: a histogram has three. */
async function servedNames(): Promise<Set<string>> {
  const all = Object.entries(metricTable);
  const of = <T>(wanted: string, read: () => Promise<T>) =>
    Object.fromEntries(all.flatMap(([name, { type }]) => (type === wanted ? [[name, read]] : [])));
  const metrics = createMetrics(() => "serving");
  metrics.count(of("count", async () => 0));
  metrics.list(of("list", async () => []));
  const { text } = await metrics.render();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = "", type = ""]) =>
    type === "histogram" ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix) : [name],
  );
  return new Set(types.flat());
}

const baseOf = (name: string): string => name.replace(/_(bucket|sum|count)$/, "");

interface Expression {
  readonly where: string;
  readonly expr: string;
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

const { spec } = parse(read("deploy/monitoring/rules.yaml")) as {
  spec: { groups: { rules: Rule[] }[] };
};
const rules = spec.groups.flatMap((group) => group.rules);
const ruleExpressions = rules.map(({ alert, expr }) => ({ where: alert, expr }));

function panelExpressions(): Expression[] {
  const { panels } = JSON.parse(read("deploy/monitoring/dashboard.json")) as {
    panels: { title: string; targets: { expr: string }[] }[];
  };
  return panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }) => ({ where: title, expr })),
  );
}

const seriesName = /\b(?:plexus|process|nodejs)_[a-z0-9_]+/g;

test("alerts and dashboard use only metrics that plexusd exports", async () => {
  const served = await servedNames();
  const expressions = [...ruleExpressions, ...panelExpressions()];
  const unknown = expressions.flatMap(({ where, expr }) =>
    [...expr.matchAll(seriesName)].flatMap(([name]) =>
      served.has(name) ? [] : [`${where}: ${name}`],
    ),
  );

  expect(expressions.length).toBeGreaterThan(20);
  expect(unknown).toEqual([]);
});

test("plexusd exports each metric of the table, and an alert or the dashboard uses it", async () => {
  const own = [...(await servedNames())].filter((name) => name.startsWith("plexus_")).map(baseOf);
  const used = [...ruleExpressions, ...panelExpressions()].map(({ expr }) => expr).join("\n");

  expect([...new Set(own)].toSorted()).toEqual(Object.keys(metricTable).toSorted());
  expect(own.filter((name) => !used.includes(name))).toEqual([]);
});

test("an import of the dashboard asks for its data source, and a sidecar need not", () => {
  const text = read("deploy/monitoring/dashboard.json");
  const { __inputs, templating } = JSON.parse(text);
  expect(__inputs).toMatchObject([{ type: "datasource", pluginId: "prometheus" }]);
  const input = `$\{${__inputs[0].name}}`;
  expect(templating.list[0]).toMatchObject({ name: "datasource", current: { value: input } });
  // Grafana replaces inputs only in an import. If the variable has none, it takes the first data source.
  expect(text.split(input)).toHaveLength(2);
});

test("every alert says what is wrong and what to do, and links to its section", () => {
  const page = "docs/operations/alerts.md";
  for (const { alert, annotations } of rules) {
    expect(Object.keys(annotations), alert).toEqual(["summary", "description", "runbook_url"]);
    const url = `https://github.com/OWNER/REPOSITORY/blob/main/${page}#${alert.toLowerCase()}`;
    expect(annotations.runbook_url).toBe(url);
  }
  const sections = [...read(page).matchAll(/^## (.+)$/gm)].map(([, title]) => title);
  expect(sections).toEqual(rules.map(({ alert }) => alert));
});
