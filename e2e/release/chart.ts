import { cp, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { loadManifests, type Manifest, root } from "#daemon/config/testing/manifests.ts";
import { releaseTool } from "./tools.ts";

/** The chart's values, and where it is installed. */
export interface Installation {
  readonly values?: object;
  /** @default kube-system */
  readonly namespace?: string;
  /** Whether to return the objects of hooks, too. */
  readonly hooks?: boolean;
}

/** What makes `helm template` print the objects of hooks, too: a kind that the chart finds in each cluster. */
export const withHooks = "--api-versions=apps/v1/DaemonSet";

export const chartDir = join(root, "deploy/chart");

/** Copies the chart without its links, as `make chart` and a release do: Helm reports each link. */
export async function copyChart(to: string, from = chartDir): Promise<string> {
  await cp(from, to, { recursive: true, dereference: true });
  return to;
}

/** The objects that the chart makes, without the labels that say that Helm made them. @throws Error of Helm */
export async function renderChart({
  values = {},
  namespace = "kube-system",
  hooks = false,
}: Installation): Promise<Manifest[]> {
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-chart-"));
  const file = join(work.path, "values.json");
  await writeFile(file, JSON.stringify(values));
  const flags = ["--namespace", namespace, "--kube-version", "1.30.0", "--values", file];
  const template = ["template", "plexus", chartDir, ...flags, hooks ? withHooks : "--no-hooks"];
  const { stdout } = await execa(await releaseTool("helm"), template);
  return loadManifests(stdout).map(withoutHelmLabels);
}

const helmLabels = [
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/version",
  "helm.sh/chart",
];

function withoutHelmLabels(object: Manifest): Manifest {
  const metadata = object.metadata as { labels?: Record<string, string> };
  const labels = Object.entries(metadata.labels ?? {});
  const own = labels.filter(([name]) => !helmLabels.includes(name));
  return { ...object, metadata: { ...object.metadata, labels: Object.fromEntries(own) } as never };
}
