import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { repositoryRoot } from "../support/paths.ts";

/** What Prometheus reads of the PrometheusRule. */
export interface Rules {
  readonly groups: readonly {
    readonly rules: readonly Readonly<Record<"alert" | "expr", string>>[];
  }[];
}

/** A panel of Grafana's model. */
export interface Panel {
  readonly title: string;
  readonly type: string;
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
  readonly fieldConfig: {
    readonly defaults: { readonly unit: string };
    /** Of single columns, by their title. */
    readonly overrides: readonly {
      readonly matcher: { readonly options: string };
      readonly properties: readonly { readonly id: string; readonly value: string }[];
    }[];
  };
  /** Its queries. */
  readonly targets: readonly Readonly<Record<"expr" | "legendFormat" | "refId", string>>[];
  /** What Grafana does with the answers. `organize` names the columns of a table. */
  readonly transformations?: readonly {
    readonly options: { readonly renameByName?: Readonly<Record<string, string>> };
  }[];
}

/** The rules as a file of Prometheus has them, without the object of the operator around. */
export async function shippedRules(): Promise<Rules> {
  return (parse(await read("rules.yaml")) as { spec: Rules }).spec;
}

/** The panels of the dashboard, with what Grafana puts in for variables: all nodes, and an interval. */
export async function shippedPanels(interval: string): Promise<Panel[]> {
  const text = await read("dashboard.json");
  const filled = text
    .replaceAll(/\$(?:cluster|node)/g, ".*")
    .replaceAll("$__rate_interval", interval);
  return (JSON.parse(filled) as { panels: Panel[] }).panels;
}

function read(name: string): Promise<string> {
  return readFile(join(repositoryRoot, "deploy/monitoring", name), "utf8");
}
