import { join } from "node:path";
import { debianRoot, unpackedPackages } from "../cluster/machine/debian.ts";

/** The processor of a guest; this machine's is amd64. */
export type GuestArchitecture = "amd64" | "arm64";

/** Unpacked packages of Debian. */
export interface GuestPackages {
  /** Below this directory is QEMU, with the libraries that this machine lacks. */
  readonly emulator: string;
  /** Below this directory are the guest's kernel and its modules. */
  readonly kernel: string;
  /** A static busybox for the guest. */
  readonly busybox: string;
  /** A directory whose programs replace this machine's in the guest. */
  readonly programs?: string;
}

/** What tests of e2e/netns run, and what builds the shim. */
const arm64Programs = [
  ...["bash", "busybox-static", "coreutils", "dash", "diffutils", "findutils", "grep", "procps"],
  ...["dpkg", "mount", "sed", "util-linux", "gcc", "libc-bin", "libc6-dev", "make", "musl-tools"],
  ...["containernetworking-plugins", "iproute2", "iptables", "iputils-ping", "nftables"],
  // Of Node.
  ...["libatomic1", "libstdc++6"],
];

/**
 * Unpacks what a guest needs, unless the cache has it. QEMU is from the backports, because
 * Debian 12's own has no card with virtual functions.
 */
export async function guestPackages(architecture: GuestArchitecture): Promise<GuestPackages> {
  if (architecture === "amd64") {
    const emulator = await unpackedPackages({
      name: "debian-guest",
      fromBackports: ["qemu-system-x86"],
      kernelsFromBackports: ["linux-image-amd64"],
    });
    return { emulator, kernel: emulator, busybox: join(await debianRoot(), "usr/bin/busybox") };
  }
  const emulator = await unpackedPackages({
    name: "debian-guest-arm64",
    fromBackports: ["qemu-system-arm"],
  });
  const programs = await unpackedPackages({
    name: "debian-arm64",
    architecture,
    fromBackports: arm64Programs,
    kernelsFromBackports: ["linux-image-arm64"],
  });
  return { emulator, kernel: programs, busybox: join(programs, "usr/bin/busybox"), programs };
}
