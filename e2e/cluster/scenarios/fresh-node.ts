// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { ask, type Request } from "./security.ts";
import { networkStatus } from "./target/objects.ts";
import {
  installPlexus,
  parkPlexus,
  plexusctl,
  plexusPod,
  unparkPlexus,
  waitForPlexus,
} from "./target/plexus.ts";
import { defaultPlexusImage } from "./target/plexus-image.ts";
import { primaryDirScenarios } from "./target/primary-dir.ts";
import type { Scene } from "./target/scene.ts";
import { isGiven, ownOnly, type Target } from "./target/target.ts";

const timeout = 900_000;
const system = "--namespace=kube-system";
const taint = "plexus.dev/not-ready";
const confFile = "/etc/cni/net.d/00-plexus.conflist";

/** A node on which pods start before Plexus is there, and what keeps them from it. */
export function freshNodeScenarios(scene: () => Scene): void {
  describe("a fresh node", () => {
    beforeEach((context) => {
      if (isGiven) {
        context.skip(ownOnly);
      }
    });

    test("tells of a pod that started before Plexus, by an event and a count", {
      timeout,
    }, async () => {
      const { target } = scene();
      await parkPlexus(target);
      onTestFinished(async () => unparkPlexus(target));
      await target.inNode(["rm", confFile]);
      expect(networkStatus(await scene().startPod("early", { networks: "red" }))).toEqual([]);
      expect(Object.keys(await scene().interfaces("early"))).toEqual(["lo", "eth0"]);
      const onHost = { networks: "red", spec: { hostNetwork: true } };
      await scene().startPod("of-the-host", onHost);
      await unparkPlexus(target);
      await waitForPlexus(target);
      const event = await scene().waitForEvent("early", "NotAttached");
      expect(event.message).toContain("runs without plexus-e2e/red");
      expect(await plexusctl(target, "status")).toContain("pods not attached: 1");
      expect((await scene().events("of-the-host")).map(({ reason }) => reason)).not.toContain(
        "NotAttached",
      );
      await scene().deletePods("early", "of-the-host");
      await scene().waitForNothingLeft({ except: "cached results" });
      // The runtime's own cache is by the network's name, which is another one now: that entry stays.
      await scene().remember();
    });

    primaryDirScenarios(scene);

    test("loses its start-up taint when it is served, and plexusd may change nothing else of it [S-208] [S-209]", {
      timeout,
    }, async () => {
      const { target } = scene();
      onTestFinished(async () => withoutTaint(target));
      await target.kubectl("taint", "node", target.nodeName, `${taint}=:NoSchedule`);
      await scene().createPod("waits", { networks: "red" });
      expect(await taintsOf(target)).toContain(taint);
      await target.apply(await startupTaintManifest(target));
      await target.kubectl(system, "rollout", "restart", "daemonset/plexus");
      await waitForPlexus(target);
      expect(networkStatus(await scene().waitForPod("waits"))).toHaveLength(2);
      expect(await taintsOf(target)).not.toContain(taint);

      await using _other = await createNode(target, "plexus-e2e-other");
      const own = target.nodeName;
      const refused: readonly (readonly [string, object, RegExp])[] = [
        [own, { metadata: { labels: { a: "b" } } }, /nothing of a Node but its taints/],
        [own, { spec: { unschedulable: true } }, /nothing of a Node but its taints/],
        [own, { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } }, /neither add nor remove/],
        ["plexus-e2e-other", { spec: { taints: [] } }, /may not change node "plexus-e2e-other"/],
      ];
      for (const [node, body, reason] of refused) {
        const { status, body: answer } = await ask(target, patchNode(node, body));
        expect([status, answer.message]).toEqual([403, expect.stringMatching(reason)]);
      }
    });
  });
}

async function startupTaintManifest(target: Target): Promise<string> {
  const text = await target.kubectl("kustomize", join(repositoryRoot, "examples/startup-taint"));
  return text.replaceAll(defaultPlexusImage, target.plexusImage);
}

/** Plexus as it was installed before. */
async function withoutTaint(target: Target): Promise<void> {
  const component = join(repositoryRoot, "deploy/components/startup-taint");
  for (const file of ["rbac.yaml", "admission-policy.yaml"]) {
    await target.kubectl("delete", "--ignore-not-found", "--filename", join(component, file));
  }
  await target.tryKubectl("taint", "node", target.nodeName, `${taint}-`);
  await installPlexus(target);
  await target.kubectl(system, "rollout", "restart", "daemonset/plexus");
  await waitForPlexus(target);
  await plexusPod(target);
}

async function taintsOf(target: Target): Promise<string[]> {
  const path = "--output=jsonpath={.spec.taints[*].key}";
  return (await target.kubectl("get", "node", target.nodeName, path)).split(" ");
}

function patchNode(node: string, body: object): Request {
  return { method: "PATCH", path: `/api/v1/nodes/${node}`, body };
}

/** A Node without a kubelet. It is deleted at the end of the scope. */
async function createNode(target: Target, name: string): Promise<AsyncDisposable> {
  const taints = [{ key: taint, effect: "NoSchedule" }];
  await target.apply({ apiVersion: "v1", kind: "Node", metadata: { name }, spec: { taints } });
  return {
    async [Symbol.asyncDispose]() {
      await target.kubectl("delete", "node", name);
    },
  };
}
