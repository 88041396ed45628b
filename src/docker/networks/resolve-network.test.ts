import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { restrictedPlugins } from "#npwg/attachment-policy.ts";
import { type NetworkSources, resolveNetwork } from "./resolve-network.ts";

/** What the option `plexus.network` finds, with a directory of definitions or without one. */
async function resolve(sources: Partial<NetworkSources>, network: string) {
  const others = { confDir: "/nonexistent", confFiles: new HostConfFiles() };
  return resolveNetwork(network, { ...others, ...sources, logger: new FakeLogger() });
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

test("a policy limits all networks but the files of the configuration directory [S-408]", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-networks-"));
  const conf = '{"cniVersion":"1.0.0","name":"lan","type":"host-device","device":"eth0"}';
  const nad = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "nad" },
    spec: { config: conf },
  };
  await writeFile(join(dir.path, "lan.conf"), conf);
  await writeFile(join(dir.path, "nad.yaml"), JSON.stringify(nad));
  const policy = { rule: "--attachment-policy restricted", plugins: restrictedPlugins };
  const sources = { manifests: dir.path, confDir: dir.path, policy };
  for (const network of [conf, join(dir.path, "lan.conf"), join(dir.path, "nad.yaml"), "nad"]) {
    const refused =
      "--attachment-policy restricted does not permit this definition: plugins[0].type";
    await expect(resolve(sources, network)).rejects.toThrow(refused);
    expect(await resolve({ ...sources, policy: undefined as never }, network)).toBeDefined();
  }
  expect(await resolve(sources, "lan")).toMatchObject({ displayName: "lan" });
  expect(await resolve(sources, '{"name":"own","type":"macvlan"}')).toBeDefined();
});
