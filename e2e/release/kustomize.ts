import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { expect } from "vitest";
import {
  hostPathOf,
  loadManifests,
  type Manifest,
  type PodSpec,
  root,
} from "#daemon/config/testing/manifests.ts";
import { kubernetesDirectory } from "../cluster/kubernetes/build/kubernetes.ts";

/** Overlays that come beside one that installs Plexus itself. */
const additions = ["agent", "dhcp", "metrics", "reference-plugins", "thin"];

/** The overlays that install Plexus on a distribution. */
export const distributions: readonly string[] = readdirSync(join(root, "deploy/overlays")).filter(
  (name) => !additions.includes(name),
);

/** The overlay with the agent of a distribution. */
export function agentOverlay(distribution: string): string {
  const own = `overlays/${distribution}/agent`;
  return existsSync(join(root, "deploy", own)) ? own : "overlays/agent";
}

const made = new Map<string, Promise<Manifest[]>>();

/** The objects that kustomize makes of a folder of deploy/; each folder is made once. */
export function kustomize(folder: string): Promise<Manifest[]> {
  const known = made.get(folder) ?? make(folder);
  made.set(folder, known);
  return known;
}

async function make(folder: string): Promise<Manifest[]> {
  const kubectl = join(await kubernetesDirectory(), "kubectl");
  return loadManifests((await execa(kubectl, ["kustomize", join(root, "deploy", folder)])).stdout);
}

/** Every host directory that a container mounts has the same name on both sides. */
export function expectSameNames(spec: PodSpec): void {
  const mounts = [...spec.initContainers, ...spec.containers].flatMap((c) => c.volumeMounts ?? []);
  for (const { name, mountPath } of mounts) {
    const path = hostPathOf(spec, name);
    if (path !== undefined) expect(mountPath.replace("/var/run", "/run")).toBe(path);
  }
}

/** Objects by kind and name. Fails if two objects have the same. */
export function byName(all: readonly Manifest[]): Record<string, Manifest> {
  const named = Object.fromEntries(all.map((each) => [`${each.kind}/${each.metadata.name}`, each]));
  expect(Object.keys(named)).toHaveLength(all.length);
  return named;
}
