// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";

/** An engine that the scenarios run on. */
export interface EngineBuild {
  /** Of the Debian packages: `release` has 20.10 on Debian 12, `unstable` a current one. */
  readonly name: "release" | "unstable";
  /** Directories with dockerd and what it executes, to be searched first. */
  readonly binDirs: readonly string[];
  readonly busybox: string;
}

/** Unpacks an engine from Debian packages, which are downloaded once. */
export async function engineBuild(name: EngineBuild["name"]): Promise<EngineBuild> {
  const root = await unpackedPackages({
    name: `docker-${name}`,
    fromUnstable: name === "unstable" ? ["docker.io", "docker-cli", "containerd"] : [],
    // unstable's runc asks for a newer C library than Debian 12's.
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
