import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPlexusd } from "../support/plexusd.ts";
import { prometheusPrograms, promtool } from "./prometheus.ts";
import { shippedPanels, shippedRules } from "./shipped.ts";

const unitTests = join(import.meta.dirname, "rules.test.yaml");
let dir: string;

beforeAll(async () => {
  await prometheusPrograms();
  dir = await mkdtemp(join(tmpdir(), "plexus-monitoring-"));
  await writeFile(join(dir, "rules.yaml"), JSON.stringify(await shippedRules()));
  await copyFile(unitTests, join(dir, "rules.test.yaml"));
});

afterAll(async () => await rm(dir, { recursive: true }));

test("promtool accepts the rules, and every alert passes its unit test", async () => {
  const success = { exitCode: 0, stdout: expect.stringContaining("SUCCESS"), stderr: "" };
  expect(await promtool(["check", "rules", join(dir, "rules.yaml")])).toEqual(success);
  expect(await promtool(["test", "rules", join(dir, "rules.test.yaml")])).toEqual(success);
  const tested = await readFile(unitTests, "utf8");
  const alerts = (await shippedRules()).groups.flatMap(({ rules }) => rules);
  const names = alerts.map(({ alert }) => alert);
  expect(names.filter((name) => !tested.includes(name))).toEqual([]);
});

test("the panel about traffic has data although two nodes name a network for one interface", async () => {
  const panels = await shippedPanels("5m");
  const exprs = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  const traffic = exprs.filter((expr) => expr.includes("plexus_attachment_info"));
  const attached = { namespace: "shop", pod: "db-0", interface: "net1" };
  const series = (name: string, labels: Readonly<Record<string, string>>, values: string) => {
    const all = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    return { series: `${name}{${all.join()}}`, values };
  };
  const info = (node: string, network: string) =>
    series("plexus_attachment_info", { ...attached, node, network }, "1x20");
  const tests = {
    rule_files: [],
    tests: [
      {
        interval: "1m",
        input_series: [
          info("n1", "shop/old"),
          info("n2", "shop/new"),
          ...["receive", "transmit"].map((direction) =>
            series(`container_network_${direction}_bytes_total`, attached, "0+60x20"),
          ),
        ],
        promql_expr_test: traffic.map((expr) => ({
          expr: `sum(${expr})`,
          eval_time: "15m",
          exp_samples: [{ labels: "{}", value: 1 }],
        })),
      },
    ],
  };
  await writeFile(join(dir, "traffic.test.yaml"), JSON.stringify(tests));
  expect(traffic).toHaveLength(2);
  expect(await promtool(["test", "rules", join(dir, "traffic.test.yaml")])).toMatchObject({
    exitCode: 0,
    stderr: "",
  });
});

test("promtool accepts the metrics of a running plexusd, apart from Node's own", async () => {
  const port = await freePort();
  const manifests = join(dir, "manifests");
  await mkdir(manifests);
  const paths = { socket: join(dir, "plexus.sock"), stateDir: join(dir, "state"), manifests };
  const flags = ["--http", `127.0.0.1:${port}`];
  const plexusd = await startPlexusd({ ...paths, logFile: join(dir, "plexusd.log"), flags });
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const metrics = await response.text();
  await plexusd.stop();
  const { stdout, stderr } = await promtool(["check", "metrics"], metrics);
  const findings = `${stdout}${stderr}`.split("\n").filter((line) => line !== "");
  // prom-client names the gauges of Node's open resources like counters.
  const ofNode = /^nodejs_active_(handles|requests|resources)_total non-counter metrics/;
  expect(findings.filter((line) => !ofNode.test(line))).toEqual([]);
  expect(metrics).toContain("plexus_build_info");
});

/** A free port of the loopback interface. */
async function freePort(): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
  await new Promise((resolve) => server.close(resolve));
  return port;
}
