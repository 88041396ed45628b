import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { ptp } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { expectRefused, type Request } from "./security.ts";
import { home } from "./target/objects.ts";
import { installPlexus, kustomize, restartPlexus } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, nodeField, skipGiven, type Target } from "./target/target.ts";

const other = "plexus-e2e-other";
const key = `networks.plexus.dev/${home}.placed`;
const path = key.replaceAll(".", "\\.");
const annotations = { "plexus.dev/schedule": "true" };
const component = join(repositoryRoot, "deploy/components/network-placement");
/** For kubectl: the files with what plexusd may with the component. */
export const placementRights = ["rbac.yaml", "admission-policy.yaml"].map(
  (name) => `--filename=${join(component, name)}`,
);

/** What a Node says of the networks that can be used on it. */
export function placementScenarios(scene: () => Scene): void {
  describe("a Node with network placement", () => {
    beforeEach(skipGiven);

    test("has a network's label and resource, and plexusd may change nothing else of its status [S-214] [S-215]", async () => {
      const { target } = scene();
      onTestFinished(async () => withoutPlacement(target));
      await target.apply(await kustomize(target, "examples/network-placement"));
      await restartPlexus(target);
      await target.apply(nad("placed", ptp("placed", 166), { namespace: home, annotations }));
      await waitForMarks(target, "true", "1k");
      await scene().startPod("placed", {
        networks: "placed",
        spec: { nodeSelector: { [key]: "true" } },
        container: { resources: { limits: { [key]: "1" } } },
      });
      expect(await scene().networkStatus("placed")).toHaveLength(2);
      await scene().deletePods("placed");

      await target.apply({ apiVersion: "v1", kind: "Node", metadata: { name: other } });
      onTestFinished(async () => void (await target.kubectl("delete", "node", other)));
      const patch = patchStatus(target.nodeName);
      const own = { metadata: { labels: { [key]: "true" } } };
      await expectRefused(target, [
        [patchStatus(other)(own), /may not change node "plexus-e2e-other"/],
        [patch({ metadata: { labels: { a: "b" } } }), /only a Node's labels/],
        [patch({ metadata: { annotations: { a: "b" } } }), /nothing else of a Node's status/],
        [patch({ status: { capacity: { "example.com/a": "1" } } }), /only a Node's resources/],
        [patch({ status: { allocatable: { pods: "1" } } }), /only a Node's resources/],
        [patch({ status: { phase: "Running" } }), /nothing else of a Node's status/],
        [
          patch({ status: { conditions: [{ type: "Ready", status: "False" }] } }),
          /only a Node's condition/,
        ],
      ]);

      await target.kubectl("delete", "net-attach-def", `--namespace=${home}`, "placed");
      await waitForMarks(target, "", "");
    });
  });
}

async function waitForMarks(target: Target, label: string, capacity: string): Promise<void> {
  await eventually(`the Node has ${key}=${label}, ${capacity}`, async () => {
    const marks = [
      await nodeField(target, `.metadata.labels.${path}`),
      await nodeField(target, `.status.capacity.${path}`),
      await nodeField(target, `.status.allocatable.${path}`),
    ];
    return marks.join() === [label, capacity, capacity].join();
  });
}

/** Plexus as it was installed before. */
async function withoutPlacement(target: Target): Promise<void> {
  await target.kubectl("delete", "--ignore-not-found", ...placementRights);
  await target.tryKubectl("delete", "net-attach-def", `--namespace=${home}`, "placed");
  await target.tryKubectl("label", "node", target.nodeName, `${key}-`);
  await installPlexus(target);
  await restartPlexus(target);
}

function patchStatus(node: string): (body: object) => Request {
  return (body) => ({ method: "PATCH", path: `/api/v1/nodes/${node}/status`, body });
}
