import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { type FilledPanel, fillPanels } from "../../monitoring/dashboard.ts";
import { dashboardSvg } from "../../monitoring/dashboard-svg.ts";
import { Prometheus } from "../../monitoring/prometheus.ts";
import { shippedPanels, shippedRules } from "../../monitoring/shipped.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { bridge } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { edit, enableHotPlug, waitForInterfaces } from "./hot-plug.ts";
import { placementRights } from "./placement.ts";
import { both, home } from "./target/objects.ts";
import { readConfig, writeConfig } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import {
  eventually,
  nodeAddress,
  nodeField,
  ownCluster,
  skipGiven,
  type Target,
} from "./target/target.ts";

/** Asks the gateway of the network `red`. */
const talk = ["ping", "10.161.0.1"];

/** `make docs DASHBOARD=1`: where to write the picture, and for how long pods start and stop. */
const picture = process.env.PLEXUS_DASHBOARD;
const seconds = picture === undefined ? 10 : 180;

/** A Prometheus with the job of docs/operations/metrics.md, the alerts and the dashboard that are shipped, on real pods. */
export function monitoringScenarios(scene: () => Scene): void {
  describe("a Prometheus", () => {
    test("scrapes plexusd with the reader's token, and has data for every alert and panel", async (context) => {
      skipGiven(context);
      const own = ownCluster(scene());
      await enableLists(own);
      await enableHotPlug(own);
      const node = `node/${own.node.name}`;
      await own.kubectl("wait", "--for=condition=NetworksReady", node, "--timeout=240s");
      const prometheus = await startPrometheus(own);
      onTestFinished(() => prometheus.stop());
      await waitUntil("plexusd is scraped", async () => {
        const up = await prometheus.query('up{job="plexus"}');
        return up[0]?.metric.node === own.node.name && up[0].value?.[1] === "1";
      });
      await doAndFail(scene());
      await fillAlerts(prometheus);
      const panels = await shippedPanels("20s");
      const filled = await fillPanels(prometheus, panels, { seconds: seconds + 60, step: 2 });
      expect(filled.filter(isEmpty).map(({ panel }) => panel.title)).toEqual([]);
      const svg = dashboardSvg(filled);
      for (const { title } of panels) expect(svg).toContain(`>${title}<`);
      if (picture !== undefined) await writeFile(resolve(repositoryRoot, picture), svg);
    });
  });
}

/** Has plexusd say which networks its node has, and who is in them, from its next start on. */
async function enableLists(target: Target): Promise<void> {
  const config = await readConfig(target);
  await target.kubectl("apply", ...placementRights);
  await writeConfig(target, `${config}\nnetworkPlacement: [condition]\n`);
  onTestFinished(async () => {
    await writeConfig(target, config);
    const condition = '.status.conditions[?(@.type=="NetworksReady")].status';
    const isGone = async (): Promise<boolean> => (await nodeField(target, condition)) === "";
    await eventually("the Node has no condition NetworksReady", isGone);
    await target.kubectl("delete", ...placementRights);
  });
}

/** Its host is the control plane's, so that it reaches API server and node as one in the cluster would. */
async function startPrometheus(cluster: Cluster): Promise<Prometheus> {
  const directory = join(cluster.directory, "prometheus");
  const token = join(cluster.directory, "metrics-token");
  const secret = ["secret", "plexus-metrics-reader", "--namespace=kube-system"];
  const { data } = await cluster.get<{ data: { token: string } }>(...secret);
  await writeFile(token, Buffer.from(data.token, "base64"), { mode: 0o600 });
  const rules = join(cluster.directory, "rules.yaml");
  await writeFile(rules, JSON.stringify(await shippedRules()));
  const { kubernetes_sd_configs: _, ...job } = await documentedJob();
  const scraped = {
    ...job,
    authorization: { credentials_file: token },
    static_configs: await discovered(cluster),
  };
  const global = { scrape_interval: "1s", evaluation_interval: "5s" };
  const jobs = [scraped, await kubeletJob(cluster, token)];
  const config = { global, rule_files: [rules], scrape_configs: jobs };
  return Prometheus.start({ directory, config, prefix: cluster.administratorCommand("env") });
}

/** The scrape configuration of docs/operations/metrics.md; only where token and API server are is another here. */
async function documentedJob(): Promise<Readonly<Record<string, unknown>>> {
  const page = await readFile(join(repositoryRoot, "docs/operations/metrics.md"), "utf8");
  const block = codeBlocks(page).find(({ text }) => text.startsWith("- job_name: plexus"));
  const [job] = parse(block?.text ?? "[]") as Record<string, unknown>[];
  if (job === undefined) throw new Error("docs/operations/metrics.md has no scrape configuration");
  return job;
}

/** The kubelet's metrics of containers, which the reader of Plexus's metrics may not read in general. */
async function kubeletJob(cluster: Cluster, token: string): Promise<object> {
  const rights = "kubelet-metrics-reader";
  const reader = "--serviceaccount=kube-system:plexus-metrics-reader";
  const binding = ["clusterrolebinding", rights, `--clusterrole=${rights}`, reader];
  await cluster.kubectl("create", "clusterrole", rights, "--verb=get", "--resource=nodes/metrics");
  await cluster.kubectl("create", ...binding);
  onTestFinished(async () => {
    await cluster.kubectl("delete", `clusterrole/${rights}`, `clusterrolebinding/${rights}`);
  });
  return {
    job_name: "kubelet",
    scheme: "https",
    metrics_path: "/metrics/cadvisor",
    // The times are those of the kubelet's last look, up to 15 seconds ago.
    honor_timestamps: false,
    tls_config: { insecure_skip_verify: true },
    authorization: { credentials_file: token },
    static_configs: [{ targets: [`${await nodeAddress(cluster)}:10250`] }],
  };
}

/** A pod as Prometheus's discovery sees it. */
interface DiscoveredPod {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly nodeName: string;
    readonly containers: readonly {
      readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
    }[];
  };
  readonly status: { readonly podIP: string };
}

/**
 * The ports of all pods of kube-system with the labels that `kubernetes_sd_configs` gives them. Debian builds its
 * Prometheus without that discovery; what the page does with the labels is Prometheus's own doing here too.
 */
async function discovered(cluster: Cluster): Promise<object[]> {
  const system = "--namespace=kube-system";
  const { items } = await cluster.get<{ items: DiscoveredPod[] }>("pods", system);
  return items.flatMap(({ metadata, spec, status }) =>
    spec.containers
      .flatMap(({ ports = [] }) => ports)
      .map(({ name, containerPort }) => ({
        targets: [`${status.podIP}:${containerPort}`],
        labels: {
          __meta_kubernetes_pod_container_port_name: name,
          __meta_kubernetes_pod_label_app_kubernetes_io_name:
            metadata.labels["app.kubernetes.io/name"] ?? "",
          __meta_kubernetes_pod_node_name: spec.nodeName,
        },
      })),
  );
}

/** Pods come and go, and lose and get a network; two cannot be attached, one for its own mistake; and one cannot be detached for a while. */
async function doAndFail(scene: Scene): Promise<void> {
  const { target } = scene;
  // A range of the gateway alone: there is never an address for a pod.
  const range = { subnet: "10.161.0.0/24", rangeStart: "10.161.0.1", rangeEnd: "10.161.0.1" };
  const full = bridge("full", 161, { ipam: { type: "host-local", ranges: [[range]] } });
  const vanishing = bridge("vanishing", 161, { type: "vanishing" });
  const scheduled = { namespace: home, annotations: { "plexus.dev/schedule": "true" } };
  await target.apply(nad("full", full, scheduled));
  await target.apply(nad("vanishing", vanishing, scheduled));
  onTestFinished(async () => {
    await scene.kubectl("delete", "network-attachment-definition", "full", "vanishing");
  });
  const plugin = "/opt/cni/bin/vanishing";
  await target.inNode(["cp", "/opt/cni/bin/bridge", plugin]);
  await scene.createPod("never-attached", { networks: "full" });
  await scene.createPod("mistaken", { networks: "no-such-network" });
  await scene.startPod("talking", { networks: "red", container: { command: talk } });
  const end = Date.now() + seconds * 1000;
  for (let n = 0; n === 0 || Date.now() < end; n++) {
    await scene.startPod(`visitor-${n}`, both);
    await edit(scene, `visitor-${n}`, "red");
    await waitForInterfaces(scene, `visitor-${n}`, ["eth0", "net1"]);
    await edit(scene, `visitor-${n}`, "red,blue");
    await waitForInterfaces(scene, `visitor-${n}`, ["eth0", "net1", "net2"]);
    if (n > 2) await scene.deletePods(`visitor-${n - 3}`);
  }
  await scene.startPod("never-detached", { networks: "vanishing" });
  await target.inNode(["mv", plugin, `${plugin}.away`]);
  await scene.kubectl("delete", "pod", "never-detached", "--wait=false");
  // Without the plugin's name it can be another operation on the pod that the DEL had to wait for.
  await scene.waitForEvent("never-detached", "FailedKillPod", "vanishing");
  await target.inNode(["mv", `${plugin}.away`, plugin]);
  await scene.deletePods("never-attached", "mistaken", "talking");
  await scene.kubectl("wait", "--for=delete", "pod/never-detached", "--timeout=240s");
  await target.inNode(["rm", plugin]);
}

/** Every alert's expression can be evaluated, and what it compares has data: an increase, after two scrapes. */
async function fillAlerts(prometheus: Prometheus): Promise<void> {
  for (const { alert, expr } of (await shippedRules()).groups.flatMap(({ rules }) => rules)) {
    await prometheus.query(expr);
    // Metrics of plexus-standalone, of which thin.ts reads one, and of kube-state-metrics.
    if (["PlexusTokenNotRenewed", "PlexusNodeNotSelected"].includes(alert)) continue;
    const compared = expr.replace(/ (==|>) [\d.]+$|^absent\(|\)$/g, "");
    expect(compared, alert).not.toBe(expr);
    await waitUntil(`${alert} has data`, async () => (await prometheus.query(compared)).length > 0);
  }
}

function isEmpty({ lines }: FilledPanel): boolean {
  return !lines.some(({ points }) => points.length > 0);
}
