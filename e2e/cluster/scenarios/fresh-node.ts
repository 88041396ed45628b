import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { expectRefused, type Request } from "./security.ts";
import { networkStatus } from "./target/objects.ts";
import {
  installPlexus,
  kustomize,
  parkPlexus,
  plexusctl,
  readConfig,
  restartPlexus,
  unparkPlexus,
  waitForPlexus,
  waitForReady,
  writeConfig,
} from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { isCrio, nodeField, ownCluster, skipGiven, type Target } from "./target/target.ts";

const taint = "plexus.dev/not-ready";
const other = "plexus-e2e-other";
const confDir = "/etc/cni/net.d";
const primaryDir = `${confDir}/primary.d`;
const primary = "10-primary.conflist";
const own = "00-plexus.conflist";

/** A node where pods start before Plexus is installed, and how to prevent that. */
export function freshNodeScenarios(scene: () => Scene): void {
  describe("a fresh node", () => {
    beforeEach(skipGiven);

    test("reports a pod that started before Plexus with an event and a count", async () => {
      const { target } = scene();
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      await inConfDir(target, `rm ${own}`);
      expect(networkStatus(await scene().startPod("early", { networks: "red" }))).toEqual([]);
      expect(Object.keys(await scene().interfaces("early"))).toEqual(["lo", "eth0"]);
      const onHost = { networks: "red", spec: { hostNetwork: true } };
      await scene().startPod("of-the-host", onHost);
      await unparkPlexus(target);
      await waitForPlexus(target);
      const event = await scene().waitForEvent("early", "NotAttached");
      expect(event.message).toContain("runs without plexus-e2e/red");
      expect(await plexusctl(target, "status")).toContain(
        "pods with other networks than requested: 1",
      );
      expect((await scene().events("of-the-host")).map(({ reason }) => reason)).not.toContain(
        "NotAttached",
      );
      await scene().deletePods("early", "of-the-host");
      await scene().waitForNothingLeft();
    });

    // The first recommendation of docs/operations/fresh-nodes.md.
    test("with the primary CNI in another directory is not ready before Plexus is installed", async () => {
      const { target } = scene();
      const before = await readConfig(target);
      onTestFinished(async () => {
        await inConfDir(
          target,
          `! [ -e ${primaryDir}/${primary} ] || mv ${primaryDir}/${primary} .`,
        );
        await inConfDir(target, `rm -rf ${primaryDir}`);
        await writeConfig(target, before);
        await unparkPlexus(target);
        await restartPlexus(target);
      });
      await parkPlexus(target);
      await inConfDir(target, `mkdir ${primaryDir}; mv ${primary} ${primaryDir}; rm ${own}`);
      await writeConfig(target, `${before}\nprimaryDir: ${primaryDir}\n`);
      // Once CRI-O was ready it stays so. A fresh node's CRI-O has just started.
      if (isCrio) await ownCluster(scene()).node.restartRuntime();
      await waitForReady(target, "False");

      await scene().createPod("early", { networks: "red" });
      await unparkPlexus(target);
      await waitForPlexus(target);
      await scene().waitForPod("early");
      expect(await scene().networkStatus("early")).toHaveLength(2);
      expect(await inConfDir(target, "ls")).toBe(`${own}\nprimary.d`);
    });

    test("loses its start-up taint when plexusd is ready, and plexusd may change nothing else of the Node [S-208] [S-209]", async () => {
      const { target } = scene();
      onTestFinished(async () => withoutTaint(target));
      await target.kubectl("taint", "node", target.nodeName, `${taint}=:NoSchedule`);
      await scene().createPod("waits", { networks: "red" });
      expect(await taintsOf(target)).toContain(taint);
      await target.apply(await kustomize(target, "examples/startup-taint"));
      await restartPlexus(target);
      await scene().waitForPod("waits");
      expect(await scene().networkStatus("waits")).toHaveLength(2);
      expect(await taintsOf(target)).not.toContain(taint);

      await target.apply({ apiVersion: "v1", kind: "Node", metadata: { name: other } });
      onTestFinished(async () => void (await target.kubectl("delete", "node", other)));
      const node = patchNode(target.nodeName);
      const taints = [{ key: "a", effect: "NoSchedule" }];
      await expectRefused(target, [
        [node({ metadata: { labels: { a: "b" } } }), /nothing of a Node but its taints/],
        [node({ spec: { unschedulable: true } }), /nothing of a Node but its taints/],
        [node({ spec: { taints } }), /neither add nor remove/],
        [patchNode(other)({ spec: { taints } }), /may not change node "plexus-e2e-other"/],
      ]);
    });
  });
}

/** Runs commands of the shell in the container runtime's directory. */
async function inConfDir(target: Target, commands: string): Promise<string> {
  return target.inNode(["sh", "-euc", `cd ${confDir}; ${commands}`]);
}

/** Plexus as it was installed before. */
async function withoutTaint(target: Target): Promise<void> {
  const component = join(repositoryRoot, "deploy/components/startup-taint");
  for (const file of ["rbac.yaml", "admission-policy.yaml"]) {
    await target.kubectl("delete", "--ignore-not-found", "--filename", join(component, file));
  }
  await target.tryKubectl("taint", "node", target.nodeName, `${taint}-`);
  await installPlexus(target);
  await restartPlexus(target);
}

async function taintsOf(target: Target): Promise<string[]> {
  return (await nodeField(target, ".spec.taints[*].key")).split(" ");
}

function patchNode(node: string): (body: object) => Request {
  return (body) => ({ method: "PATCH", path: `/api/v1/nodes/${node}`, body });
}
