import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "../../kubernetes/cluster.ts";
import { prepareTools } from "../../kubernetes/tools.ts";
import { builtModule } from "../../machine/go-module.ts";
import { writeImageOnBusybox } from "../../machine/images.ts";

const version = "v0.9.4";

export const whereaboutsModule = `github.com/k8snetworkplumbingwg/whereabouts@${version}`;

/** The image that docs/user/networks.md installs. */
const reference = `ghcr.io/k8snetworkplumbingwg/whereabouts:${version}`;

/**
 * Builds the IPAM plugin whereabouts, unless it is in the cache, and returns a directory with its programs and its
 * source's `doc` and `script`.
 */
export async function prepareWhereabouts(): Promise<string> {
  return builtModule({
    name: "whereabouts",
    module: whereaboutsModule,
    programs: {
      whereabouts: "./cmd",
      "ip-control-loop": "./cmd/controlloop",
      "ip-reconciler": "./cmd/reconciler",
    },
    keep: ["doc", "script"],
    scripts: ["script"],
  });
}

/** Makes the image, with the files that the project's own has, known to the cluster's node. */
export async function loadWhereabouts({ node }: Cluster): Promise<void> {
  const [{ busybox }, built] = await Promise.all([prepareTools(), prepareWhereabouts()]);
  await using directory = await mkdtempDisposable(join(tmpdir(), "plexus-whereabouts-"));
  const archive = join(directory.path, "whereabouts.tar");
  const programs = ["whereabouts", "ip-control-loop", "ip-reconciler"];
  const scripts = ["install-cni.sh", "lib.sh", "token-watcher.sh"];
  const files = Object.fromEntries([
    ...programs.map((name) => [name, join(built, name)]),
    ...scripts.map((name) => [name, join(built, "script", name)]),
  ]);
  await node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files }));
}
