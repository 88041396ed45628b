import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { createMetrics } from "./metrics.ts";

const root = new URL("../../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

/** Names of the series that plexusd serves: a histogram has three. */
async function servedNames(): Promise<Set<string>> {
  const none = async (): Promise<number> => 0;
  const counts = {
    plexus_attachments: none,
    plexus_leftover_records: none,
    plexus_pods_not_attached: none,
    plexus_hotplug_pending: none,
    plexus_interfaces_lost: none,
    plexus_attachments_outdated: none,
    plexus_standalone_token_age_seconds: none,
    plexus_standalone_token_remaining_seconds: none,
  };
  const metrics = createMetrics({ counts });
  const { text } = await metrics.render();
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = "", type = ""]) =>
    type === "histogram" ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix) : [name],
  );
  return new Set(types.flat());
}

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

test("each metric of plexusd is documented, and used in an alert or the dashboard", async () => {
  const own = [...(await servedNames())].filter((name) => name.startsWith("plexus_"));
  const described = read("docs/operations/metrics.md");
  const used = [...ruleExpressions, ...panelExpressions()].map(({ expr }) => expr).join("\n");
  const base = (name: string): string => name.replace(/_(bucket|sum|count)$/, "");

  expect(own.filter((name) => !described.includes(`\`${base(name)}\``))).toEqual([]);
  expect(own.filter((name) => !used.includes(base(name)))).toEqual([]);
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
