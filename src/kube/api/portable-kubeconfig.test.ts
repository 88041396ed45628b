import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { parse } from "yaml";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { ApiClient } from "./client.ts";
import { inClusterContent } from "./in-cluster.ts";
import { kubeconfigCredentials } from "./kubeconfig.ts";
import { readPlainKubeconfig } from "./plain-kubeconfig.ts";
import { portableKubeconfig } from "./portable-kubeconfig.ts";

async function scratch(): Promise<string> {
  const dir = await temporaryDirectory();
  return dir;
}

test("a service account's certificate authority and token are inlined", async () => {
  const serviceAccountDir = await scratch();
  await writeFile(join(serviceAccountDir, "ca.crt"), "the authority");
  await writeFile(join(serviceAccountDir, "token"), "first\n");
  const inCluster = { host: "fd00::1", port: "443", serviceAccountDir };
  const { clusters, users } = parse(portableKubeconfig(await inClusterContent(inCluster)));
  expect(clusters[0].cluster).toEqual({
    server: "https://[fd00::1]/",
    "certificate-authority-data": Buffer.from("the authority").toString("base64"),
  });
  expect(users[0].user).toEqual({ token: "first" });
});

test("a kubeconfig's files are inlined", async ({ api }) => {
  const dir = await scratch();
  await writeFile(join(dir, "token"), "mine");
  api.token = "mine";
  const kubeconfig = await api.kubeconfig({ tokenFile: join(dir, "token") });
  const portable = join(dir, "portable");
  const content = readPlainKubeconfig(kubeconfig, { allowsTokenFile: true });
  await writeFile(portable, portableKubeconfig(content));
  await rm(join(dir, "token"));
  const client = new ApiClient(await kubeconfigCredentials(portable));
  await client.json({ path: "/api/v1/pods", timeoutMs: 2000 });
  client.close();
});

test("a kubeconfig with a credential plugin is rejected", async ({ api }) => {
  const kubeconfig = await api.kubeconfig({ exec: { command: "login" } });
  expect(() => readPlainKubeconfig(kubeconfig, { allowsTokenFile: true })).toThrow(
    "exec: only a certificate or a token can be used here",
  );
});
