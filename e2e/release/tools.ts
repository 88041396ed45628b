import { join } from "node:path";
import { execa } from "execa";
import { cachedDirectory } from "../cluster/machine/cache.ts";
import { unpackedPackages } from "../cluster/machine/debian.ts";

/** A program that is built from its released Go module, with the versions that its own go.mod pins. */
interface GoProgram {
  readonly module: string;
  readonly version: string;
  /** The package of its `main`, in the module. */
  readonly package: string;
}

const programs = {
  helm: { module: "helm.sh/helm/v3", version: "v3.22.0", package: "./cmd/helm" },
  krew: { module: "sigs.k8s.io/krew", version: "v0.5.0", package: "./cmd/krew" },
  cosign: {
    module: "github.com/sigstore/cosign/v2",
    version: "v2.6.5",
    package: "./cmd/cosign",
  },
  crane: {
    module: "github.com/google/go-containerregistry",
    version: "v0.22.1",
    package: "./cmd/crane",
  },
  actionlint: {
    module: "github.com/rhysd/actionlint",
    version: "v1.7.12",
    package: "./cmd/actionlint",
  },
} as const satisfies Record<string, GoProgram>;

export type ReleaseTool = keyof typeof programs;

/** The path of a tool that releases are made and checked with; the first time it is built, in minutes. */
export async function releaseTool(name: ReleaseTool): Promise<string> {
  const { module, version, package: main } = programs[name];
  const { stdout: go } = await execa("go", ["version"]);
  const directory = await cachedDirectory(name, [go, module, version], async (to) => {
    const { stdout } = await execa("go", ["mod", "download", "-json", `${module}@${version}`]);
    const { Dir: cwd } = JSON.parse(stdout) as { Dir: string };
    const flags = ["-trimpath", "-ldflags", "-s -w"];
    const env = { CGO_ENABLED: "0" };
    await execa("go", ["build", ...flags, "-o", join(to, name), main], { cwd, env });
  });
  return join(directory, name);
}

/** The path of ShellCheck, from Debian's package; its libraries are those that compilers need. */
export async function shellcheck(): Promise<string> {
  const root = await unpackedPackages({
    name: "debian-shellcheck",
    fromUnstable: [],
    fromRelease: ["shellcheck"],
    trials: [["usr/bin/shellcheck", "--version"]],
  });
  return join(root, "usr/bin/shellcheck");
}
