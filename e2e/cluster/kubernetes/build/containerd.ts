import { join } from "node:path";
import { cachedDirectory } from "../../machine/cache.ts";
import { debianRoot } from "../../machine/debian.ts";
import { downloadedModule } from "../../machine/go-module.ts";
import { run } from "../../machine/run.ts";

/** What nodes need of it. */
const programs = ["containerd", "containerd-shim-runc-v2", "ctr"];

/** Leave out snapshotters that the cluster does not use and that need libraries or file systems. */
const buildTags = ["no_aufs", "no_btrfs", "no_devmapper", "no_zfs"];

/** The directory of containerd's programs: Debian's, or the release that PLEXUS_E2E_CONTAINERD selects. */
export async function containerdDirectory(): Promise<string> {
  const version = process.env.PLEXUS_E2E_CONTAINERD;
  if (!version) return join(await debianRoot(), "usr/bin");
  const inputs = [await run(["go", "version"]), ...buildTags];
  return cachedDirectory(`containerd-${version}`, inputs, async (directory) => {
    await buildContainerd(version, directory);
  });
}

/** Builds in the downloaded module, so that its own go.mod decides about every version. */
async function buildContainerd(version: string, directory: string): Promise<void> {
  const module = `github.com/containerd/containerd${version.startsWith("1.") ? "" : "/v2"}`;
  const cwd = await downloadedModule(`${module}@v${version}`);
  const flags = [
    "-mod=readonly",
    "-trimpath",
    ...["-tags", buildTags.join()],
    ...["-ldflags", `-s -w -X ${module}/version.Version=v${version}`],
  ];
  const packages = programs.map((name) => `./cmd/${name}`);
  await run(["go", "build", ...flags, "-o", `${directory}/`, ...packages], {
    cwd,
    env: { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false" },
  });
  await run([join(directory, "containerd"), "--version"]);
}
