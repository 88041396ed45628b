import { join } from "node:path";
import { unpackedPackages } from "../cluster/machine/debian.ts";
import { builtModule } from "../cluster/machine/go-module.ts";

/** Released Go modules, each with the package `cmd/NAME`. */
const programs = {
  helm: "helm.sh/helm/v3@v3.22.0",
  krew: "sigs.k8s.io/krew@v0.5.0",
  cosign: "github.com/sigstore/cosign/v3@v3.1.3",
  crane: "github.com/google/go-containerregistry@v0.22.1",
  actionlint: "github.com/rhysd/actionlint@v1.7.12",
} as const;

export type ReleaseTool = keyof typeof programs;

/** The path of a tool that releases are made and checked with; the first time it is built, in minutes. */
export async function releaseTool(name: ReleaseTool): Promise<string> {
  const module = programs[name];
  return join(await builtModule({ name, module, programs: { [name]: `./cmd/${name}` } }), name);
}

/** The path of ShellCheck, from Debian's package; its libraries come with compilers. */
export async function shellcheck(): Promise<string> {
  const root = await unpackedPackages({
    name: "debian-shellcheck",
    fromRelease: ["shellcheck"],
    trials: [["usr/bin/shellcheck", "--version"]],
  });
  return join(root, "usr/bin/shellcheck");
}
