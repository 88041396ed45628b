import { join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { releaseName } from "../cluster/machine/apt.ts";
import { debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { cnitoolBinary } from "../conformance/tools.ts";

/** What a machine with the clients is made of. */
export interface ClientTools {
  /** The root of the Debian packages of podman. */
  readonly podman: string;
  /** The root of those of containerd, runc, busybox and the CNI plugins. */
  readonly debian: string;
  readonly nerdctl: string;
  readonly cnitool: string;
  /** A static init: see cluster/machine/init.c. */
  readonly init: string;
}

/** Finds all programs, and builds or downloads what is not in the cache yet. */
export async function prepareClientTools(): Promise<ClientTools> {
  const [podman, debian, nerdctl, cnitool, init] = await Promise.all([
    podmanRoot(),
    debianRoot(),
    nerdctlBinary(),
    cnitoolBinary(),
    initProgram(),
  ]);
  return { podman, debian, nerdctl, cnitool, init };
}

/** Debian 12 has the last podman with CNI. */
async function podmanRoot(): Promise<string> {
  const release = await releaseName();
  if (release !== "bookworm") throw new Error(`podman with CNI needs Debian 12, not ${release}`);
  const configuration = ["golang-github-containers-common", "golang-github-containers-image"];
  const libraries = ["libgpgme11", "libsubid4"];
  return unpackedPackages({
    name: "debian-podman",
    fromRelease: ["podman", "conmon", ...libraries, ...configuration],
  });
}

async function nerdctlBinary(): Promise<string> {
  const module = "github.com/containerd/nerdctl/v2@v2.1.2";
  const programs = { nerdctl: "./cmd/nerdctl" };
  return join(await builtModule({ name: "nerdctl", module, programs }), "nerdctl");
}
