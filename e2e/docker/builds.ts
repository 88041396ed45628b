import { join } from "node:path";
import { debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";

/** A Docker Engine that the scenarios run on. */
export interface DockerBuild {
  /** Of Debian: `release` is Debian 12 with Docker Engine 20.10, `unstable` has a current one. */
  readonly name: "release" | "unstable";
  /** Directories with dockerd and the programs that it executes. */
  readonly binDirs: readonly string[];
  readonly busybox: string;
}

/** Unpacks a Docker Engine from Debian packages, which are downloaded once. */
export async function dockerBuild(name: DockerBuild["name"]): Promise<DockerBuild> {
  const root = await unpackedPackages({
    name: `docker-${name}`,
    fromUnstable:
      name === "unstable" ? ["docker.io", "docker-cli", "docker-buildx", "containerd"] : [],
    // Also on a newer machine: its packages of 20.10 need no more. unstable's runc needs a newer C library.
    release: "bookworm",
    fromRelease: name === "unstable" ? ["runc"] : ["docker.io", "containerd", "runc"],
    trials: [
      ["usr/sbin/dockerd", "--version"],
      ["usr/bin/docker", "--version"],
      ["usr/bin/containerd", "--version"],
      ["usr/sbin/runc", "--version"],
    ],
  });
  const binDirs = [join(root, "usr/sbin"), join(root, "usr/bin")];
  return { name, binDirs, busybox: join(await debianRoot(), "usr/bin/busybox") };
}
