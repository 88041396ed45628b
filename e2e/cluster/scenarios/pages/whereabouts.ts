// SPDX-License-Identifier: Apache-2.0

import { chmod, cp, mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { prepareTools } from "../../kubernetes/tools.ts";
import { cachedDirectory } from "../../machine/cache.ts";
import { writeImageOnBusybox } from "../../machine/images.ts";
import { run } from "../../machine/run.ts";

/** The newest release that Go's checksum database has. */
const version = "v0.8.0";

/** The image that docs/user/networks.md installs. */
const reference = `ghcr.io/k8snetworkplumbingwg/whereabouts:${version}`;

/**
 * Builds the IPAM plugin whereabouts, unless it is in the cache, and returns a directory with its programs and its
 * source's `doc` and `script`.
 */
export async function prepareWhereabouts(): Promise<string> {
  return cachedDirectory("whereabouts", [await run(["go", "version"]), version], build);
}

/** Makes the image, with the files that the project's own has, known to the cluster's node. */
export async function loadWhereabouts({ node }: Cluster): Promise<void> {
  const [{ busybox }, built] = await Promise.all([prepareTools(), prepareWhereabouts()]);
  await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-whereabouts-"));
  const archive = join(directory.path, "whereabouts.tar");
  const files = {
    whereabouts: join(built, "whereabouts"),
    "ip-control-loop": join(built, "ip-control-loop"),
    "install-cni.sh": join(built, "script/install-cni.sh"),
  };
  await node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files }));
}

/** Builds in a copy of the module, so that its own go.mod decides about every version. */
async function build(directory: string): Promise<void> {
  const module = `github.com/k8snetworkplumbingwg/whereabouts@${version}`;
  const downloaded = await run(["go", "mod", "download", "-json", module], { cwd: directory });
  const { Dir: origin } = JSON.parse(downloaded) as { Dir: string };
  await using scratch = await mkdtempDisposable(join(tmpdir(), "plexus-whereabouts-"));
  const source = join(scratch.path, "source");
  await cp(origin, source, { recursive: true });
  await run(["chmod", "-R", "u+w", source]);
  const env = { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false -mod=mod" };
  const programs = { whereabouts: "./cmd", "ip-control-loop": "./cmd/controlloop" };
  for (const [name, main] of Object.entries(programs)) {
    const flags = ["-trimpath", "-ldflags", "-s -w", "-o", join(directory, name)];
    await run(["go", "build", ...flags, main], { cwd: source, env });
  }
  for (const name of ["doc", "script"])
    await cp(join(source, name), join(directory, name), { recursive: true });
  // Go's modules have no executable files.
  await chmod(join(directory, "script/install-cni.sh"), 0o755);
}
