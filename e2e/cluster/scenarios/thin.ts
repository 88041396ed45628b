import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { repositoryRoot } from "../../support/paths.ts";
import { filesOfPlexus, uninstallPlexus } from "./install/uninstall.ts";
import { otherImages, writeOtherImage } from "./target/images.ts";
import { both } from "./target/objects.ts";
import {
  installPlexus,
  kustomize,
  metric,
  nodeInPlexusd,
  parkPlexus,
  plexusctl,
  unparkPlexus,
  waitForPlexus,
} from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, ownCluster, skipGiven, type Target } from "./target/target.ts";

const executable = "/opt/cni/bin/plexus-standalone";
const thin = "deploy/overlays/thin";
const component = join(repositoryRoot, "deploy/components/thin");

/**
 * As on a node in LXC, Incus or Proxmox, it is not the same for plexus-standalone on the node and for
 * plexusd in its container: to each, the other's records seem to be from before a reboot.
 */
const bootIdPath = "/proc/sys/kernel/random/boot_id";

/** The flavour in which plexus-standalone serves the calls. */
export function thinScenarios(scene: () => Scene): void {
  describe("the thin flavour", () => {
    beforeEach(skipGiven);

    test("replaces the thick one and back while pods run, starts pods without plexusd's pod, and is uninstalled [S-212] [S-213]", async () => {
      const { target } = scene();
      const { node, directory } = ownCluster(scene());
      await node.loadImage(await writeOtherImage("standalone", directory));
      const bootIdOfPlexusd = await inPlexusd(
        target,
        `console.log(require("node:fs").readFileSync("${bootIdPath}", "utf8"))`,
      );
      expect((await target.inNode(["cat", bootIdPath])).trim()).not.toBe(bootIdOfPlexusd.trim());
      await scene().startPod("from-thick", both);
      onTestFinished(() => restore(target));

      await useFlavour(scene(), thin, "into-thin");
      await scene().startAttached("from-thin");
      expect(await listens(target)).toBe(false);
      const doctor = await plexusctl(target, "doctor");
      expect(doctor).toMatch(
        /^ok +token of plexus-standalone +issued \d min ago, expires in \d{4} min$/m,
      );
      expect(doctor).toContain("recorded attachments: 9");
      expect(await plexusctl(target, "records", "--leftovers")).not.toContain("from-thick");
      const links = ["lo", "eth0", "net1", "net2"];
      // Each DEL detaches one leftover, and the machine has run longer than the grace period.
      for (const name of ["ends-1", "ends-2", "ends-3"]) {
        await scene().startPod(name, both);
        await scene().deletePods(name);
      }
      for (const name of ["from-thick", "into-thin"])
        expect(Object.keys(await scene().interfaces(name))).toEqual(links);
      expect(await plexusctl(target, "doctor")).toContain("recorded attachments: 9");
      expect(await metric(target, "plexus_standalone_token_age_seconds")).toBeLessThan(240);
      await scene().deletePods("from-thick");
      expect(await requestTokens(target)).toEqual({
        own: 201,
        other: 403,
        unbound: 403,
        kept: 403,
      });

      await parkPlexus(target);
      await scene().startAttached("without-plexusd");
      await scene().deletePods("into-thin");
      await unparkPlexus(target);
      await waitForPlexus(target);

      await useFlavour(scene(), "deploy/overlays/metrics", "into-thick");
      await scene().startAttached("from-thick-again");
      expect(await listens(target)).toBe(true);
      for (const name of ["from-thin", "without-plexusd"])
        expect(Object.keys(await scene().interfaces(name))).toEqual(links);
      await scene().deletePods("from-thin", "without-plexusd", "into-thick", "from-thick-again");
      await scene().waitForNothingLeft();

      await useFlavour(scene(), thin, "into-thin-again");
      await scene().deletePods("into-thin-again");
      await uninstallPlexus(target, { plexus: thin, uninstaller: "deploy/uninstall" });
      expect(await filesOfPlexus(target)).toEqual([]);
      expect(await target.inNode(["ls", "/var/lib/plexus"])).not.toContain("standalone");
    });
  });
}

/** Applies an overlay with an image that has plexus-standalone. A pod that starts meanwhile becomes ready. */
async function useFlavour(scene: Scene, folder: string, pod: string): Promise<void> {
  const { target } = scene;
  await target.apply(await kustomize(target, folder, otherImages.standalone));
  await scene.createPod(pod, both);
  await waitForPlexus(target);
  await scene.waitForPod(pod);
  expect(await scene.networkStatus(pod)).toHaveLength(3);
}

/** As before: thick, without plexus-standalone, and without the permissions of the thin flavour. */
async function restore(target: Target): Promise<void> {
  await target.inNode(["rm", "-f", executable]);
  const files = ["rbac.yaml", "admission-policy.yaml"].map((file) => `-f${join(component, file)}`);
  await target.kubectl("delete", "--ignore-not-found", ...files);
  await installPlexus(target);
  await eventually("the token is removed from the node", async () => {
    const listed = await target.inNode(["ls", "/var/lib/plexus"]);
    return !listed.includes("standalone");
  });
}

/** Whether a process listens on plexusd's socket for calls. */
async function listens(target: Target): Promise<boolean> {
  const sockets = await target.inNode(["cat", "/proc/net/unix"]);
  return /\/run\/plexus\/plexus\.sock(\.\w+)?$/m.test(sockets);
}

/** The API server's answers to plexusd's pod, and to the token on the node's disk, for a token. */
async function requestTokens(target: Target): Promise<unknown> {
  const script = `
    const { readFileSync } = require("node:fs");
    const dir = "/var/run/secrets/kubernetes.io/serviceaccount";
    const { users } = JSON.parse(readFileSync("/var/lib/plexus/standalone/kubeconfig", "utf8"));
    const ask = (token, boundObjectRef) => new Promise((resolve, reject) => {
      const request = require("node:https").request({
        host: process.env.KUBERNETES_SERVICE_HOST, port: process.env.KUBERNETES_SERVICE_PORT,
        path: "/api/v1/namespaces/kube-system/serviceaccounts/plexusd/token", method: "POST",
        ca: readFileSync(dir + "/ca.crt"),
        headers: { authorization: "Bearer " + token, "content-type": "application/json" },
      }, (response) => { response.resume(); resolve(response.statusCode); });
      request.on("error", reject);
      request.end(JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest",
        spec: { audiences: [], boundObjectRef } }));
    });
    const token = readFileSync(dir + "/token", "utf8");
    const node = (name) => ({ apiVersion: "v1", kind: "Node", name });
    const own = process.env.NODE_NAME;
    console.log(JSON.stringify({
      own: await ask(token, node(own)), other: await ask(token, node("node-9")),
      unbound: await ask(token), kept: await ask(users[0].user.token, node(own)),
    }));`;
  return JSON.parse(await inPlexusd(target, script));
}

function inPlexusd(target: Target, script: string): Promise<string> {
  return nodeInPlexusd(target, "-e", `(async () => { ${script} })();`);
}
