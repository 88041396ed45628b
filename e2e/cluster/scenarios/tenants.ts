import { describe, expect, onTestFinished, test } from "vitest";
import { list, ptp } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { elsewhere, home } from "./target/objects.ts";
import { kubectlPlexus, readConfig, restartPlexus, writeConfig } from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { skipGiven } from "./target/target.ts";

const policy = `
attachmentPolicy: restricted
byNamespace:
  - name: tenants
    namespaces: ["${home}"]
    defaultNetworks: [tenants]
  - name: platform
    namespaces: ["${elsewhere}"]
    attachmentPolicy: trusted
`;

const selector = "plexus.dev/allowed-namespaces-selector";
const names = "plexus.dev/allowed-namespaces";

/** What tenants may attach, without any admission control. */
export function tenantScenarios(scene: () => Scene): void {
  describe("a cluster with tenants", () => {
    test("limits what their definitions contain and who uses them, and gives their pods networks [S-311] [S-404]", async (context) => {
      skipGiven(context);
      const { target } = scene();
      const before = await readConfig(target);
      const tenants = nad("tenants", ptp("tenants", 171), { namespace: "kube-system" });
      onTestFinished(async () => {
        await writeConfig(target, before);
        await restartPlexus(target);
        await target.kubectl("delete", "net-attach-def", "--namespace=kube-system", "tenants");
        await target.kubectl("label", "namespace", home, "team-");
      });
      const moved = list("moved", { type: "host-device", device: "eth0" });
      await target.apply({
        apiVersion: "v1",
        kind: "List",
        items: [
          tenants,
          nad("moved", moved, { namespace: home }),
          nad("shared", ptp("shared", 173), {
            namespace: elsewhere,
            annotations: { [names]: "nowhere", [selector]: "team in (blue,green)" },
          }),
        ],
      });
      await writeConfig(target, `${before}\n${policy}`);
      await restartPlexus(target);

      await scene().createPod("refused", { networks: "moved" });
      const refusal =
        'attachmentPolicy does not permit this definition: plugins[0].type: "host-device"';
      expect((await scene().waitForEvent("refused", "DefinitionNotAllowed")).message).toContain(
        refusal,
      );
      const { stdout } = await kubectlPlexus(target, ["explain", `${home}/refused`]);
      expect(stdout).toContain(refusal);
      const networks = await kubectlPlexus(target, ["networks", `${home}/moved`]);
      expect(networks.stdout).toContain(refusal);

      await scene().createPod("stranger", { networks: `${elsewhere}/shared` });
      const { message } = await scene().waitForEvent("stranger", "NetworkAccessDenied");
      expect(message).toContain(`may not use network "${elsewhere}/shared"`);
      await target.kubectl("label", "namespace", home, "team=blue");
      await scene().startPod("friend", { networks: `${elsewhere}/shared` });
      const status = await scene().networkStatus("friend");
      expect(status.map(({ name }) => name).slice(1)).toEqual([
        "kube-system/tenants",
        `${elsewhere}/shared`,
      ]);
      const explained = await kubectlPlexus(target, ["explain", `${home}/friend`]);
      expect(explained.stdout.split("\n")[0]).toContain("net1=kube-system/tenants");
    });
  });
}
