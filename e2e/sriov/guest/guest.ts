// SPDX-License-Identifier: Apache-2.0

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { GuestImage } from "./image.ts";

/** What a guest does. */
export interface GuestCommand {
  /** A shell script, which runs as root with the host's files; what it writes is gone with the guest. */
  readonly script: string;
  /** The directory that the guest has as `/run/share`, where alone it can leave something. */
  readonly share: string;
  /** What the guest prints is passed on; it is killed when it takes longer. */
  readonly timeoutMs: number;
}

/** Where `start.sh` writes the exit status. */
const exitPort = "0xf4";

/**
 * Boots a machine with a network card that has virtual functions, without a network behind it, runs the script and
 * returns its exit status. The processor is emulated: everything takes about nine times as long as on the host.
 * @throws Error when the guest ends in another way
 */
export async function runInGuest(image: GuestImage, command: GuestCommand): Promise<number> {
  await writeFile(join(command.share, "command"), command.script);
  const qemu = join(image.packages, "usr/bin/qemu-system-x86_64");
  // setpriv: the guest ends with this process, however that one ends.
  const args = ["--pdeathsig=KILL", "--", qemu, ...qemuArguments(image, command.share)];
  const libraries = ["usr/lib", "lib"].map((dir) => join(image.packages, dir, "x86_64-linux-gnu"));
  const { exitCode, failed, shortMessage } = await execa("setpriv", args, {
    reject: false,
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
    timeout: command.timeoutMs,
    env: {
      LD_LIBRARY_PATH: libraries.join(":"),
      QEMU_MODULE_DIR: join(image.packages, "usr/lib/x86_64-linux-gnu/qemu"),
    },
  });
  // 0 is a guest that powered off by itself, an even status is QEMU's own.
  if (exitCode !== undefined && exitCode % 2 === 1) return (exitCode - 1) / 2;
  throw new Error(`the guest ended unexpectedly: ${failed ? shortMessage : "powered off"}`);
}

function qemuArguments(
  { packages, kernel, initramfs, files }: GuestImage,
  share: string,
): string[] {
  const start = join(import.meta.dirname, "start.sh");
  const firmware = ["usr/share/qemu", "usr/share/seabios"].map((dir) => join(packages, dir));
  const shared = (tag: string, path: string, more: string): string[] => [
    "-virtfs",
    `local,path=${path},mount_tag=${tag},security_model=none,${more}`,
  ];
  return [
    ...["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"],
    ...["-machine", "q35,accel=tcg", "-cpu", "max,la57=off", "-m", "1024"],
    // The guest's clock counts its instructions, so that a busy machine does not make its timeouts expire.
    ...["-icount", "shift=0,sleep=on"],
    ...firmware.flatMap((path) => ["-L", path]),
    ...["-kernel", kernel, "-initrd", initramfs],
    ...["-append", `console=ttyS0 quiet panic=-1 -- ${start} ${files}`],
    ...["-device", "pcie-root-port,id=root-port,chassis=1,slot=1"],
    ...["-netdev", "hubport,id=hub,hubid=1", "-device", "igb,bus=root-port,netdev=hub,romfile="],
    ...shared("host", "/", "readonly=on,multidevs=remap"),
    ...shared("share", share, "multidevs=remap"),
    ...["-device", `isa-debug-exit,iobase=${exitPort},iosize=4`],
  ];
}
