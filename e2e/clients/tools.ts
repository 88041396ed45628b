import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { releaseName } from "../cluster/machine/apt.ts";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";
import { run } from "../cluster/machine/run.ts";
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

const nerdctlModule = "github.com/containerd/nerdctl/v2@v2.1.2";

/** Finds all programs, and builds or downloads those that are not in the cache yet. */
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
    fromUnstable: [],
    fromRelease: ["podman", "conmon", ...libraries, ...configuration],
    trials: [],
  });
}

async function nerdctlBinary(): Promise<string> {
  const inputs = [nerdctlModule, await run(["go", "version"])];
  return join(await cachedDirectory("nerdctl", inputs, buildNerdctl), "nerdctl");
}

/** Builds in a copy of the module, so that its own go.mod decides about every version. */
async function buildNerdctl(directory: string): Promise<void> {
  const downloaded = await run(["go", "mod", "download", "-json", nerdctlModule], {
    cwd: directory,
  });
  const { Dir: origin } = JSON.parse(downloaded) as { Dir: string };
  const source = await mkdtemp(join(tmpdir(), "plexus-nerdctl-"));
  try {
    await cp(origin, source, { recursive: true });
    await run(["chmod", "-R", "u+w", source]);
    const flags = ["-trimpath", "-ldflags", "-s -w"];
    await run(["go", "build", ...flags, "-o", join(directory, "nerdctl"), "./cmd/nerdctl"], {
      cwd: source,
      env: { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false" },
    });
  } finally {
    await rm(source, { recursive: true, force: true });
  }
}
