import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { home } from "../target/objects.ts";
import type { Scene } from "../target/scene.ts";
import { isGiven, kubernetesMinor, ownCluster, skipGiven } from "../target/target.ts";
import { DraDriver } from "./dra-driver.ts";
import {
  addLinks,
  addressesOf,
  linkNetwork,
  linkSlice,
  links,
  recordOf,
  removeLinks,
} from "./link-devices.ts";

const driver = "link.plexus.example";
const resourceName = "plexus.example/claimed";
const extendedName = "plexus.example/extended";
const resourceApi = { apiVersion: "resource.k8s.io/v1" };

/** What a claim was allocated, as the driver reads it. */
interface ResourceClaim {
  readonly status: {
    readonly allocation: {
      readonly devices: { readonly results: readonly { pool: string; device: string }[] };
    };
  };
}

/** Networks by devices that are allocated by claims, with the real scheduler, controller and kubelet. */
export function claimScenarios(scene: () => Scene): void {
  describe("the devices of resource claims", () => {
    let plugin: DraDriver | undefined;
    let minor = 0;

    beforeEach((context) => {
      skipGiven(context);
      const reason = `not run: Kubernetes 1.${minor} has no resource.k8s.io/v1, 1.34 has`;
      context.skip(minor < 34, reason);
    });

    beforeAll(async () => {
      if (isGiven) return;
      minor = await kubernetesMinor(scene().target);
      if (minor < 34) return;
      const { node } = ownCluster(scene());
      await addLinks(scene());
      plugin = new DraDriver({
        name: driver,
        kubeletDir: join(node.root, "var/lib/kubelet"),
        allocated: async (name) => {
          const { status } = await scene().get<ResourceClaim>("resourceclaim", name);
          return status.allocation.devices.results;
        },
      });
      await plugin.start();
      await scene().target.apply({ apiVersion: "v1", kind: "List", items: objects(scene()) });
      await scene().remember();
    });

    afterAll(async () => {
      if (plugin === undefined) return;
      const made = [`resourceslices/${driver}`, `deviceclasses/${driver}`];
      await scene().target.kubectl("delete", ...made);
      await plugin[Symbol.asyncDispose]();
      await removeLinks(scene());
      await scene().remember();
    });

    test("from a template and by name are moved into the pod, and its status keeps the claims' names [D-23] [D-25] [D-26] [D-28] [D-34]", async () => {
      const addresses = await addressesOf(scene());
      const pod = await scene().startPod("claims", {
        networks: [
          { name: "claimed-one", "dev.plexus.resourceClaim": { claim: "by-name" } },
          { name: "claimed-two" },
        ],
        spec: {
          resourceClaims: [
            { name: "from-template", resourceClaimTemplateName: "link" },
            { name: "by-name", resourceClaimName: "link" },
          ],
        },
        container: { resources: { claims: [{ name: "from-template" }, { name: "by-name" }] } },
      });
      const { attachments } = await recordOf(scene(), "claims");
      const devices = attachments.flatMap(({ device }) => device ?? []);
      const [generated] = pod.status.resourceClaimStatuses ?? [];
      expect(generated).toMatchObject({
        name: "from-template",
        resourceClaimName: expect.stringMatching(/^claims-from-template-/),
      });
      expect(devices.map(({ source }) => source)).toEqual([
        "ResourceClaim link",
        `ResourceClaim ${generated?.resourceClaimName}`,
      ]);
      const [, ...macs] = (await scene().networkStatus("claims")).map(({ mac }) => mac);
      expect(macs).toEqual(devices.map(({ id }) => addresses[id]));
      expect(await scene().exec("claims", "ip", "link", "show", "net2")).toContain(
        addresses[devices[1]?.id ?? ""],
      );
      await scene().deletePods("claims");
      expect(await addressesOf(scene())).toEqual(addresses);
    });

    test("that back an extended resource are moved into the pod [D-24] [D-34]", async (context) => {
      context.skip(minor < 36, `not run: in Kubernetes 1.${minor} off by default, in 1.36 on`);
      const addresses = await addressesOf(scene());
      const pod = await scene().startPod("extended", {
        networks: "extended",
        container: { resources: { limits: { [extendedName]: "1" } } },
      });
      const { attachments } = await recordOf(scene(), "extended");
      const [device] = attachments.flatMap((each) => each.device ?? []);
      const { resourceClaimName } = pod.status.extendedResourceClaimStatus ?? {};
      expect(device).toMatchObject({
        resourceName: extendedName,
        source: `ResourceClaim ${resourceClaimName}`,
      });
      expect((await scene().networkStatus("extended"))[1]?.mac).toBe(addresses[device?.id ?? ""]);
      await scene().deletePods("extended");
      expect(await addressesOf(scene())).toEqual(addresses);
    });
  });
}

/** The driver's devices, their class, the claims and the networks. */
function objects({ target }: Scene): object[] {
  const inHome = { namespace: home, name: "link" };
  const devices = { requests: [{ name: "link", exactly: { deviceClassName: driver } }] };
  return [
    {
      ...resourceApi,
      kind: "DeviceClass",
      metadata: { name: driver },
      spec: {
        selectors: [{ cel: { expression: `device.driver == "${driver}"` } }],
        extendedResourceName: extendedName,
      },
    },
    linkSlice({ driver, nodeName: target.nodeName, resourceName }, links),
    {
      ...resourceApi,
      kind: "ResourceClaimTemplate",
      metadata: inHome,
      spec: { spec: { devices } },
    },
    { ...resourceApi, kind: "ResourceClaim", metadata: inHome, spec: { devices } },
    linkNetwork("claimed-one", resourceName),
    linkNetwork("claimed-two", resourceName),
    linkNetwork("extended", extendedName),
  ];
}
