import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { chartDir, copyChart, renderChart } from "../../../release/chart.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { run, tryRun } from "../../machine/run.ts";
import { helm, tryHelm } from "../target/helm.ts";
import { otherImages, writeOtherImage } from "../target/images.ts";
import { namespaceObject } from "../target/objects.ts";
import {
  installPlexus,
  kubectlPlexus,
  plexusPod,
  readConfig,
  waitForPlexus,
  writeConfig,
} from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { kubernetesMinor, ownCluster, skipGiven, type Target } from "../target/target.ts";
import { uninstallPlexus } from "./uninstall.ts";

const system = "--namespace=kube-system";
const noCrd = "--set=crds.enabled=false";
/** Plexus is installed from the manifests. */
const adopting = ["--take-ownership", "--dry-run=server"];
const level = "pod-security.kubernetes.io/enforce";

/** Its chart owned the ConfigMap plexus-config. */
const earlierRevision = "fe890aae5c08c3b4f1d2d3a75bb6144bbb582519";

/** The chart where an installation is not new. */
export function chartScenarios(scene: () => Scene): void {
  describe("the Helm chart", () => {
    beforeEach(skipGiven);

    test("of an earlier revision is upgraded while a pod has networks, and no setting gets lost", async () => {
      const { target } = scene();
      const { directory, node } = ownCluster(scene());
      const earlier = await earlierChart(join(directory, "earlier"));
      const config = await readConfig(target);
      await uninstallPlexus(target);
      // The earlier chart makes it.
      await target.kubectl(system, "delete", "configmap", "plexus-config", "--ignore-not-found");
      onTestFinished(async () => {
        await writeConfig(target, config);
        await installPlexus(target);
      });
      const settings = ["--set=config.strictness=multus", "--set=config.delGraceMs=61000"];
      await helm(target, "install", "plexus", earlier, system, noCrd, ...settings);
      await waitForPlexus(target);
      await scene().startAttached("stays");
      const interfaces = await scene().interfaces("stays");
      await writeConfig(target, `${await readConfig(target)}\nlogLevel: debug\n`);

      await node.loadImage(await writeOtherImage("next", directory));
      const [repository, tag] = otherImages.next.split(":");
      const image = [`--set=image.repository=${repository}`, `--set=image.tag=${tag}`];
      const chart = await copyChart(join(directory, "chart"));
      const upgrade = ["upgrade", "plexus", chart, system, "--reuse-values", ...image];
      await refuses(target, upgrade, 'plexus-config.*"debug".*would lose');
      const before = await plexusPod(target);
      await helm(target, ...upgrade, "--set=config.logLevel=debug");
      await waitForPlexus(target);
      expect((await plexusPod(target)).metadata.uid).not.toBe(before.metadata.uid);
      expect(await readConfig(target)).toBe("");
      const kept = { strictness: "multus", delGraceMs: 61_000, logLevel: "debug" };
      expect(await effectiveConfig(target)).toMatchObject(kept);
      expect(await scene().interfaces("stays")).toEqual(interfaces);
      await scene().startAttached("by-the-new-chart");

      await writeConfig(target, "publishStatus: afterReply\n");
      await helm(target, ...upgrade);
      await refuses(target, [...upgrade, "--set=config.publishStatus=required"], "would override");
      await target.kubectl(system, "delete", "configmap", "plexus-config");
      await helm(target, "rollback", "plexus", "1", system);
      await waitForPlexus(target);
      expect(await readConfig(target)).toContain("strictness: multus");
      expect(await scene().interfaces("stays")).toEqual(interfaces);

      await helm(target, ...upgrade);
      await waitForPlexus(target);
      expect(await effectiveConfig(target)).toMatchObject({ strictness: "multus" });

      await changeToKubectl(target, chart);
      expect(await effectiveConfig(target)).toMatchObject({ strictness: "multus" });
      expect(await scene().interfaces("stays")).toEqual(interfaces);
      await scene().deletePods("stays", "by-the-new-chart");
      await uninstallPlexus(target);
    });

    test("refuses to adopt an installation whose settings its values lack", async () => {
      const { target } = scene();
      const platform = ["get", "configmap", "plexus-platform", "--output=json"];
      const before = await target.kubectl(system, ...platform);
      const data = { "platform.yaml": "cniConfDir: /etc/cni/net.d\nconfDir: /data/networks\n" };
      const { metadata, ...rest } = JSON.parse(before);
      const { name, namespace, labels } = metadata;
      await target.apply({ ...rest, metadata: { name, namespace, labels }, data });
      onTestFinished(() => installPlexus(target));
      const dryRun = ["install", "plexus", chartDir, system, noCrd, ...adopting];
      await refuses(target, dryRun, 'plexus-platform.*confDir: "/data/networks".*would lose');
      await helm(target, ...dryRun, "--set=config.confDir=/data/networks");
    });

    test("has pods that Pod Security admits after the command of its notes", async () => {
      const { target } = scene();
      const namespace = "plexus-e2e-restricted";
      await target.apply(namespaceObject(namespace, { [level]: "restricted" }));
      onTestFinished(async () => void (await target.kubectl("delete", "namespace", namespace)));
      const values = { agent: { enabled: true } };
      const made = await renderChart({ values, namespace, hooks: true });
      const pods = made.flatMap(({ metadata, spec }) => {
        if (spec?.template === undefined) return [];
        const { serviceAccountName: _, ...podSpec } = spec.template.spec;
        const { name } = metadata;
        const restartPolicy = "Never";
        const kind = { apiVersion: "v1", kind: "Pod", metadata: { name, namespace } };
        return [{ ...kind, spec: { ...podSpec, restartPolicy } }];
      });
      expect(pods.length).toBeGreaterThan(3);
      const create = (pod: object): Promise<string> =>
        run(target.kubectlCommand("create", "--dry-run=server", "--filename=-"), {
          input: JSON.stringify(pod),
        });
      for (const pod of pods) await expect(create(pod)).rejects.toThrow("violates PodSecurity");
      const flags = ["--namespace", namespace, noCrd, ...adopting];
      const { stdout } = await helm(target, "install", "plexus", chartDir, ...flags);
      const [, command = ""] = /kubectl (label namespace .*)/.exec(stdout) ?? [];
      await target.kubectl(...command.split(" "), "--overwrite");
      for (const pod of pods) expect(await create(pod)).toContain("created");
    });

    test("names values without effect in its notes", async () => {
      const values = ["metrics.port=19999", "global.imageRegistry=registry.example.org"];
      const flags = [noCrd, ...adopting, ...values.map((each) => `--set=${each}`)];
      const { stdout } = await helm(
        scene().target,
        "install",
        "plexus",
        chartDir,
        system,
        ...flags,
      );
      expect(stdout).toContain("metrics.port has no effect without metrics.enabled=true\n");
      expect(stdout).toContain("global.imageRegistry has no effect");
    });
  });
}

/** The chart of the earlier revision, without links. @throws Error if git cannot fetch the revision */
async function earlierChart(directory: string): Promise<string> {
  const git = (...args: string[]) => tryRun(["git", "-C", repositoryRoot, ...args]);
  // A clone of CI has the newest commit only.
  const { exitCode } = await git("cat-file", "-e", earlierRevision);
  if (exitCode !== 0) await git("fetch", "--depth=1", "origin", earlierRevision);
  const archive = join(directory, "archive.tar");
  await mkdir(directory, { recursive: true });
  const files = ["archive", `--output=${archive}`, earlierRevision, "deploy", "crds"];
  await run(["git", ...files], { cwd: repositoryRoot });
  await run(["tar", "-C", directory, "-xf", archive]);
  return copyChart(join(directory, "chart"), join(directory, "deploy/chart"));
}

/** Follows docs/operations/helm.md from Helm to kubectl. */
async function changeToKubectl(target: Target, chart: string): Promise<void> {
  const { stdout: values } = await helm(target, "get", "values", "plexus", system, "-o", "yaml");
  const file = join(chart, "../values-of-the-release.yaml");
  await writeFile(file, values);
  const version = `--kube-version=1.${await kubernetesMinor(target)}`;
  const { stdout } = await helm(target, "template", "plexus", chart, system, "-f", file, version);
  await target.apply(stdout);
  await target.kubectl(system, "delete", "secret", "--selector=owner=helm,name=plexus");
  await waitForPlexus(target);
  const jobs = await target.kubectl(system, "get", "jobs,daemonsets", "--output=name");
  expect(jobs).not.toContain("plexus-uninstall");
  expect((await helm(target, "list", system, "--short")).stdout).toBe("");
}

/** Expects Helm to fail with this message, and to change nothing. */
async function refuses(target: Target, command: string[], message: string): Promise<void> {
  const { exitCode, stderr } = await tryHelm(target, ...command);
  expect(stderr).toMatch(new RegExp(message));
  expect(exitCode).toBe(1);
}

/** The settings in effect on the node. */
async function effectiveConfig(target: Target): Promise<unknown> {
  const { stdout } = await kubectlPlexus(target, ["config", target.nodeName, "-o", "json"]);
  const [{ settings }] = JSON.parse(stdout) as [{ settings: { key: string; value: unknown }[] }];
  return Object.fromEntries(settings.map(({ key, value }) => [key, value]));
}
