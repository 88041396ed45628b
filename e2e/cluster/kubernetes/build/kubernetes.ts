import { copyFile, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cachedDirectory } from "../../machine/cache.ts";
import { downloadedModule } from "../../machine/go-module.ts";
import { run } from "../../machine/run.ts";

/** The release that CI tests. PLEXUS_E2E_KUBERNETES selects another. */
const defaultVersion = "1.36.3";

/** Kubernetes' programs, all in one executable: see main.go. */
const programs = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kubectl",
];

/** The release of Kubernetes that clusters have: `1.36.3`. */
export function kubernetesVersion(): string {
  return process.env.PLEXUS_E2E_KUBERNETES || defaultVersion;
}

/** The directory of Kubernetes' own programs, kubectl among them; the first time they are built, in ten minutes. */
export async function kubernetesDirectory(): Promise<string> {
  const version = kubernetesVersion();
  const main = join(import.meta.dirname, "main.go");
  const inputs = [await run(["go", "version"]), await readFile(main)];
  return cachedDirectory(`kubernetes-${version}`, inputs, async (directory) => {
    await buildKubernetes(main, `v${version}`, directory);
  });
}

async function buildKubernetes(main: string, version: string, directory: string): Promise<void> {
  const source = await downloadedModule(`k8s.io/kubernetes@${version}`);
  await using work = await mkdtempDisposable(join(tmpdir(), "plexus-kubernetes-"));
  await copyFile(main, join(work.path, "main.go"));
  await copyFile(join(source, "go.sum"), join(work.path, "go.sum"));
  const goMod = await readFile(join(source, "go.mod"), "utf8");
  await writeFile(join(work.path, "go.mod"), requiring(version, goMod));
  for (const [, sample = ""] of goMod.matchAll(/\.\/staging\/src\/(k8s\.io\/sample-\S+)/g)) {
    await mkdir(join(work.path, "unused", sample), { recursive: true });
    await writeFile(join(work.path, "unused", sample, "go.mod"), `module ${sample}\n`);
  }
  const [major, minor] = version.replace("v", "").split(".");
  const stamps = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: "clean" };
  const flags = Object.entries(stamps).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  const build = ["go", "build", "-mod=mod", "-trimpath", "-ldflags"] as const;
  await run([...build, `-s -w ${flags.join(" ")}`, "-o", `${directory}/`, "."], {
    cwd: work.path,
    // The checksum database lacks some of Kubernetes' libraries, such as kube-proxy v0.30.14.
    env: { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false", GONOSUMDB: "k8s.io/*" },
  });
  for (const program of programs) {
    await symlink("kube", join(directory, program));
  }
  await run([join(directory, "kubectl"), "version", "--client"]);
}

/**
 * Kubernetes' own go.mod, for a module that requires it: so its versions of everything count. It replaces its own
 * libraries by folders of its repository, which the downloaded module lacks; here they are replaced by their releases.
 * Empty modules replace the samples: not all of them are released.
 */
function requiring(version: string, goMod: string): string {
  const own = goMod
    .replace(/^module .*/m, "module plexus.dev/e2e/kube")
    .replace(/\.\/staging\/src\/(k8s\.io\/sample-)/g, "./unused/$1")
    .replace(/\.\/staging\/src\/(\S+)/g, `$1 ${version.replace("v1.", "v0.")}`);
  return `${own}\nrequire k8s.io/kubernetes ${version}\n`;
}
