import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { type NetworkSources, resolveNetwork } from "./resolve-network.ts";

/** What the option `plexus.network` finds, with a directory of definitions or without one. */
async function resolve(sources: Pick<NetworkSources, "manifests">, network: string) {
  const others = { confDir: "/nonexistent", confFiles: new HostConfFiles() };
  return resolveNetwork(network, { ...sources, ...others, logger: new FakeLogger() });
}

test("networks may be definitions of the driver's directory, as it is now", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-manifests-"));
  const manifests = dir.path;
  await expect(resolve({ manifests }, "lan")).rejects.toThrow("/nonexistent");
  const type = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  const spec = { config: '{"type":"macvlan","name":"lan"}' };
  for (const namespace of ["default", "infra"]) {
    const nad = JSON.stringify({ ...type, metadata: { namespace, name: "lan" }, spec });
    await writeFile(join(manifests, `${namespace}.yaml`), nad);
  }
  expect(await resolve({ manifests }, "lan")).toMatchObject({ displayName: "default/lan" });
  expect(await resolve({ manifests }, "infra/lan")).toMatchObject({ displayName: "infra/lan" });
  await expect(resolve({ manifests }, "infra/wan")).rejects.toThrow(
    "there is no NetworkAttachmentDefinition infra/wan",
  );
  await dir.remove();
  await expect(resolve({ manifests }, "lan")).rejects.toThrow(
    `cannot read the directory ${manifests}`,
  );
});

test("without a directory, networks are files or JSON", async () => {
  await expect(resolve({}, "lan")).rejects.toThrow("/nonexistent");
  await expect(resolve({}, "infra/lan")).rejects.toThrow(
    "there is no NetworkAttachmentDefinition infra/lan",
  );
});
