// SPDX-License-Identifier: Apache-2.0

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { RunResult } from "../run.ts";
import { home, statusKey } from "./objects.ts";
import { plexusPod } from "./plexus.ts";
import type { Scene } from "./scene.ts";
import type { Target } from "./target.ts";

const account = "system:serviceaccount:kube-system:plexusd";
const fakeNode = "plexus-e2e-no-node";

/** Runs kubectl with one token and nothing else. */
type AsToken = (...args: string[]) => Promise<RunResult>;

/** What the credential that plexusd has on the node is good for. */
export function securityScenarios(scene: () => Scene): void {
  describe("plexusd's token", () => {
    test("is that of its ServiceAccount, bound to the pod and the node", async () => {
      const { target } = scene();
      const { stdout } = await (await asPlexusd(target))("auth", "whoami", "--output=json");
      expect(JSON.parse(stdout).status.userInfo).toMatchObject({
        username: account,
        extra: {
          "authentication.kubernetes.io/node-name": [target.nodeName],
          "authentication.kubernetes.io/pod-name": [(await plexusPod(target)).metadata.name],
        },
      });
      const pid = await plexusdCredentials(target);
      expect(pid).toEqual(["ca.crt", "namespace", "token"]);
    });

    test("may read pods and networks, and tell of events", async () => {
      const plexusd = await asPlexusd(scene().target);
      for (const question of allowed) {
        const { stdout } = await plexusd("auth", "can-i", ...question, "--all-namespaces");
        expect([question, stdout]).toEqual([question, "yes"]);
      }
    });

    test.each(refused)("may not %s %s", async (...question) => {
      const plexusd = await asPlexusd(scene().target);
      const { stdout } = await plexusd("auth", "can-i", ...question, "--all-namespaces");
      expect(stdout).toBe("no");
    });

    test("writes the status of a pod of its own node, and nothing else of it", async () => {
      const { target } = scene();
      await scene().startPod("mine");
      const plexusd = await asPlexusd(target);
      const patch = async (body: object): Promise<RunResult> => patchStatus(plexusd, "mine", body);
      expect(await patch(annotations({ [statusKey]: "[]" }))).toMatchObject({ exitCode: 0 });
      expect((await scene().pod("mine")).metadata.annotations?.[statusKey]).toBe("[]");
      const bad: readonly (readonly [object, RegExp])[] = [
        [annotations({ "example.com/other": "x" }), /no annotation but its own/],
        [annotations({ "k8s.v1.cni.cncf.io/networks": "blue" }), /no annotation but its own/],
        [{ metadata: { labels: { a: "b" } } }, /annotations only/],
        [{ status: { phase: "Succeeded" } }, /annotations only/],
      ];
      for (const [body, reason] of bad) {
        const { exitCode, stderr } = await patch(body);
        expect([exitCode, stderr]).toEqual([1, expect.stringMatching(reason)]);
      }
      const whole = ["patch", "pod", "mine", `--namespace=${home}`, "--type=merge", "--patch"];
      const { stderr } = await plexusd(...whole, JSON.stringify(annotations({ [statusKey]: "" })));
      expect(stderr).toMatch(/Forbidden.*cannot patch resource "pods"/s);
    });

    test("writes nothing on a pod of another node", async () => {
      const { target } = scene();
      await createForeignPod(scene());
      const plexusd = await asPlexusd(target);
      const body = annotations({ [statusKey]: "[]" });
      const { exitCode, stderr } = await patchStatus(plexusd, "foreign", body);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(
        `plexusd of node "${target.nodeName}" may not write on a pod of node "${fakeNode}"`,
      );
    });

    test("of no node writes nothing at all", async () => {
      const { target } = scene();
      await scene().startPod("any");
      const token = await target.kubectl("create", "token", "plexusd", "--namespace=kube-system");
      const unbound = await withToken(target, token);
      const { exitCode, stderr } = await patchStatus(
        unbound,
        "any",
        annotations({ [statusKey]: "[]" }),
      );
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining("may not write on a pod")]);
    });
  });
}

const allowed: readonly string[][] = [
  ["list", "pods"],
  ["watch", "network-attachment-definitions.k8s.cni.cncf.io"],
  ["patch", "pods", "--subresource=status"],
  ["create", "events"],
];

const refused: readonly string[][] = [
  ["patch", "pods"],
  ["update", "pods", "--subresource=status"],
  ["create", "pods"],
  ["delete", "pods"],
  ["create", "pods", "--subresource=exec"],
  ["get", "secrets"],
  ["get", "configmaps"],
  ["get", "nodes"],
  ["patch", "network-attachment-definitions.k8s.cni.cncf.io"],
  ["list", "events"],
];

function annotations(values: Readonly<Record<string, string>>): object {
  return { metadata: { annotations: values } };
}

async function patchStatus(as: AsToken, pod: string, body: object): Promise<RunResult> {
  const what = ["pod", pod, `--namespace=${home}`, "--subresource=status"];
  return as("patch", ...what, "--type=merge", `--patch=${JSON.stringify(body)}`);
}

/** A pod that is bound to a node that there is not: nobody runs it. */
async function createForeignPod(scene: Scene): Promise<void> {
  const { target } = scene;
  await target.apply({ apiVersion: "v1", kind: "Node", metadata: { name: fakeNode } });
  onTestFinished(async () => {
    const force = ["--force", "--grace-period=0", "--ignore-not-found"];
    await scene.kubectl("delete", "pod", "foreign", ...force);
    await target.kubectl("delete", "node", fakeNode);
  });
  const spec = { nodeName: fakeNode, nodeSelector: {}, tolerations: [{ operator: "Exists" }] };
  await scene.createPod("foreign", { spec });
}

/** The token as it lies in plexusd's container. */
async function asPlexusd(target: Target): Promise<AsToken> {
  const { metadata } = await plexusPod(target);
  const token = await target.inNode(["sh", "-c", `cat ${credentials(metadata.uid)}/token`]);
  return withToken(target, token.trim());
}

async function plexusdCredentials(target: Target): Promise<string[]> {
  const { metadata } = await plexusPod(target);
  const listed = await target.inNode(["sh", "-c", `ls ${credentials(metadata.uid)}`]);
  return listed.split("\n");
}

function credentials(uid: string): string {
  return `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~projected/kube-api-access-*`;
}

/** kubectl with the administrator's way to the API server, and no certificate of the administrator's. */
async function withToken(target: Target, token: string): Promise<AsToken> {
  const view = ["config", "view", "--raw", "--minify", "--flatten", "--output=json"];
  const config = JSON.parse(await target.kubectl(...view));
  const directory = await mkdtemp(join(tmpdir(), "plexus-token-"));
  onTestFinished(async () => rm(directory, { recursive: true }));
  const file = join(directory, "kubeconfig");
  const users = [{ name: config.contexts[0].context.user, user: { token } }];
  await writeFile(file, JSON.stringify({ ...config, users }), { mode: 0o600 });
  return async (...args) => target.tryKubectlAs(file, ...args);
}
