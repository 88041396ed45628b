import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { DefinitionSource } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { nadObject } from "#kube/testing/objects.ts";
import { openDefinitionSource } from "./definition-source.ts";
import { resolveNetwork } from "./resolve-network.ts";

const logger = new FakeLogger();

/** What the option `plexus.network` finds in a source. */
async function resolve(source: DefinitionSource | undefined, network: string) {
  const found = source === undefined ? {} : { source };
  const confFiles = new HostConfFiles();
  return resolveNetwork({ network }, { ...found, confDir: "/nonexistent", confFiles, logger });
}

test("networks may be definitions of a cluster; no error contains the credentials [M-1.4]", async () => {
  await using server = await FakeApiServer.start();
  server.token = "s3cr3t";
  const kubeconfig = await server.kubeconfig({ token: "s3cr3t" });
  await using definitions = await openDefinitionSource({ kubeconfig, logger });
  server.put("network-attachment-definitions", nadObject("lan"));
  expect(await resolve(definitions, "lan")).toMatchObject({ displayName: "default/lan" });
  await expect(resolve(definitions, "infra/lan")).rejects.toThrow(
    "there is no NetworkAttachmentDefinition infra/lan",
  );
  server.token = "another";
  const refused = await resolve(definitions, "infra/lan").catch((error: Error) => error);
  expect(refused).toBeInstanceOf(Error);
  expect(String(refused)).not.toContain("s3cr3t");
});

test("networks may be definitions of the driver's own directory of manifests", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-manifests-"));
  const nad = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  await writeFile(join(dir.path, "lan.yaml"), JSON.stringify({ ...nad, ...nadObject("lan") }));
  await using definitions = await openDefinitionSource({ manifests: dir.path, logger });
  expect(await resolve(definitions, "lan")).toMatchObject({ displayName: "default/lan" });
});

test("without a source, networks are files or JSON", async () => {
  await using definitions = await openDefinitionSource({ logger });
  await expect(resolve(definitions, "lan")).rejects.toThrow("/nonexistent");
});
