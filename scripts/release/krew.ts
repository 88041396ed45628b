import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { execa } from "execa";
import { stringify } from "yaml";

const archive = "kubectl-plexus.tar.gz";

/** What a krew manifest names. */
interface KrewRelease {
  readonly version: string;
  /** The URL of the repository, whose release has the archive. */
  readonly repository: string;
}

/** Packs the kubectl plugin of a directory for krew, and returns krew's manifest of it. */
export async function packKrewPlugin(out: string, release: KrewRelease): Promise<string> {
  const path = `${out}/${archive}`;
  // The same files give the same archive.
  const metadata = ["--owner=0", "--group=0", "--numeric-owner", "--mode=0755", "--mtime=@0"];
  const files = ["LICENSE", "NOTICE", `--directory=${out}`, "kubectl-plexus"];
  await execa("tar", ["--create", "--gzip", ...metadata, `--file=${path}`, ...files]);
  return krewManifest(release, hash("sha256", await readFile(path)));
}

function krewManifest({ version, repository }: KrewRelease, sha256: string): string {
  const platform = {
    selector: { matchExpressions: [{ key: "os", operator: "In", values: ["linux", "darwin"] }] },
    uri: `${repository}/releases/download/v${version}/${archive}`,
    sha256,
    bin: "kubectl-plexus",
  };
  return stringify({
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "plexus" },
    spec: {
      version: `v${version}`,
      homepage: repository,
      shortDescription: "Explain a pod's additional networks",
      description:
        "Says why a pod lacks a network and what to do, and examines the nodes of\n" +
        "a cluster with Plexus, a CNI meta-plugin for pods with several networks.\n",
      caveats:
        "Needs permission to list pods in the namespace of Plexus and to create\n" +
        "pods/exec there. PLEXUS_NAMESPACE names it, if it is not kube-system.\n",
      platforms: [platform],
    },
  });
}
