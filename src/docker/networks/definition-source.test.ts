import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { nadObject } from "#kube/testing/objects.ts";
import { openDefinitionSource } from "./definition-source.ts";
import { type NetworkSources, resolveNetwork } from "./resolve-network.ts";

const logger = new FakeLogger();

/** What the option `plexus.network` finds in a source. */
async function resolve(sources: Pick<NetworkSources, "source" | "manifests">, network: string) {
  const confFiles = new HostConfFiles();
  return resolveNetwork({ network }, { ...sources, confDir: "/nonexistent", confFiles, logger });
}

test("networks may be definitions of a cluster; no error contains the credentials [M-1.4]", async () => {
  await using server = await FakeApiServer.start();
  server.token = "s3cr3t";
  const kubeconfig = await server.kubeconfig({ token: "s3cr3t" });
  await using source = (await openDefinitionSource({ kubeconfig, logger }))!;
  server.put("network-attachment-definitions", nadObject("lan"));
  expect(await resolve({ source }, "lan")).toMatchObject({ displayName: "default/lan" });
  await expect(resolve({ source }, "infra/lan")).rejects.toThrow(
    "there is no NetworkAttachmentDefinition infra/lan",
  );
  server.token = "another";
  const refused = await resolve({ source }, "infra/lan").catch((error: Error) => error);
  expect(refused).toBeInstanceOf(Error);
  expect(String(refused)).not.toContain("s3cr3t");
});

test("networks may be definitions of the driver's own directory of manifests, as it is now", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-manifests-"));
  const manifests = dir.path;
  await expect(resolve({ manifests }, "lan")).rejects.toThrow("/nonexistent");
  const nad = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  await writeFile(join(manifests, "lan.yaml"), JSON.stringify({ ...nad, ...nadObject("lan") }));
  expect(await resolve({ manifests }, "lan")).toMatchObject({ displayName: "default/lan" });
  await dir.remove();
  await expect(resolve({ manifests }, "lan")).rejects.toThrow(
    `cannot read the directory ${manifests}`,
  );
});

test("without a source, networks are files or JSON", async () => {
  expect(await openDefinitionSource({ logger })).toBeUndefined();
  await expect(resolve({}, "lan")).rejects.toThrow("/nonexistent");
});
