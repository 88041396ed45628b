import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { nad } from "../../../support/node/manifests.ts";
import { repositoryRoot } from "../../../support/paths.ts";
import { home, networks } from "../target/objects.ts";
import { kubectlPlexus, metric, restartPlexus } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { eventually, skipGiven } from "../target/target.ts";

const definitions = "network-attachment-definitions.k8s.cni.cncf.io";

/** Somebody deletes the CRD, and the API server all definitions with it. */
export function lostCrdScenario(scene: () => Scene): void {
  test("pods get their networks while the CRD is gone and while it is back and empty, and kubectl plexus restore creates the definitions again", async (context) => {
    skipGiven(context);
    const { target } = scene();
    const apply = () => target.kubectl("apply", "--filename", join(repositoryRoot, "crds"));
    const names = async (): Promise<string> =>
      (await target.kubectl("-n", home, "get", definitions, "-o", "name")).trim();
    const restore = (...flags: string[]) => kubectlPlexus(target, ["restore", ...flags]);
    const lost = () => metric(target, "plexus_lost_definitions");
    const alone = nad("alone", networks.red, { namespace: home });
    await target.apply(alone);
    const before = (await names()).split("\n");
    const here = before.filter((name) => !name.endsWith("/alone"));
    // plexusd writes what has changed twice a minute. Until then, it cannot tell this deletion from those with the CRD.
    const isKept = async (names: readonly string[]): Promise<boolean[]> => {
      const kept = await target.inNode(["cat", "/var/lib/plexus/definitions.json"]);
      return names.map((name) => kept.includes(`"name":"${name.split("/")[1]}"`));
    };
    await eventually(
      "the definitions are kept",
      async () => !(await isKept(before)).includes(false),
    );
    await target.kubectl("-n", home, "delete", definitions, "alone");
    await eventually("the deleted one is not", async () => (await isKept(["/alone"]))[0] === false);
    onTestFinished(async () => {
      await apply();
      await restore();
    });

    await target.kubectl("delete", "crd", definitions);
    await scene().startPod("without-crd", { networks: "red" });
    expect(await scene().networkStatus("without-crd")).toHaveLength(2);
    await eventually("the loss is counted", async () => (await lost()) >= here.length);
    const about = ["--namespace=default", "--field-selector=involvedObject.kind=Node"];
    expect(await target.kubectl("get", "events", ...about)).toContain("DefinitionsLost");
    const doctor = await kubectlPlexus(target, ["doctor", target.nodeName]);
    expect(doctor.stdout).toMatch(/^PROBLEM +definitions +deleted with their CRD: /m);
    expect(await restore()).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("first apply their CRD"),
    });
    await restartPlexus(target);
    await scene().startPod("restarted", { networks: "red" });

    await apply();
    await target.kubectl("wait", "--for=condition=Established", "crd", definitions);
    await scene().startPod("empty-crd", { networks: "red" });
    expect(await scene().networkStatus("empty-crd")).toHaveLength(2);
    const planned = await restore("--dry-run");
    expect(planned).toMatchObject({ exitCode: 0, stderr: "" });
    expect(planned.stdout).toMatch(new RegExp(`^${home}/red +1 +would be created$`, "m"));
    expect(planned.stdout).not.toContain("alone");
    const restored = await restore();
    expect(restored).toMatchObject({ exitCode: 0, stderr: "" });
    expect(restored.stdout).toMatch(new RegExp(`^${home}/red +1 +created$`, "m"));
    expect((await names()).split("\n").toSorted()).toEqual(here.toSorted());
    await eventually("nothing is lost", async () => (await lost()) === 0);
    await scene().startPod("after", { networks: "red" });
    await scene().createPod("of-deleted", { networks: "alone" });
    await scene().waitForEvent("of-deleted", "NoNetworkFound");
    await scene().deletePods("without-crd", "restarted", "empty-crd", "after", "of-deleted");
  });
}
