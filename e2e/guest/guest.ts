import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { GuestImage } from "./image.ts";

/** What a guest does. */
interface GuestCommand {
  /** A shell script, which runs as root with the host's files; what it writes is gone with the guest. */
  readonly script: string;
  /** The directory that the guest has as `/run/share`, where alone it can leave something. */
  readonly share: string;
}

/** For a guest that hangs, not for a busy machine: vitest ends each test that does. */
const timeoutMs = 3_600_000;

/** What differs between machines: QEMU's program, its arguments, and the console. */
const machines = {
  amd64: {
    program: "qemu-system-x86_64",
    board: ["-machine", "q35,accel=tcg", "-cpu", "max,la57=off"],
    console: "ttyS0",
  },
  arm64: {
    program: "qemu-system-aarch64",
    board: ["-machine", "virt,accel=tcg", "-cpu", "cortex-a72"],
    console: "ttyAMA0",
  },
} as const;

/**
 * Boots a machine with a network card that has virtual functions, without a network behind it, runs the script and
 * returns its exit status. The processor is emulated: everything takes about nine times as long as on the host.
 * @throws Error when the guest ends in another way
 */
export async function runInGuest(image: GuestImage, command: GuestCommand): Promise<number> {
  await writeFile(join(command.share, "command"), command.script);
  const { emulator } = image;
  const qemu = join(emulator, "usr/bin", machines[image.architecture].program);
  // setpriv: the guest ends with this process, however that one ends.
  const args = ["--pdeathsig=KILL", "--", qemu, ...qemuArguments(image, command.share)];
  const libraries = ["usr/lib", "lib"].map((dir) => join(emulator, dir, "x86_64-linux-gnu"));
  const { failed, shortMessage } = await execa("setpriv", args, {
    reject: false,
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
    timeout: timeoutMs,
    env: {
      LD_LIBRARY_PATH: libraries.join(":"),
      QEMU_MODULE_DIR: join(emulator, "usr/lib/x86_64-linux-gnu/qemu"),
    },
  });
  // start.sh writes it last.
  const status = await readFile(join(command.share, "status"), "utf8").catch(() => undefined);
  if (!failed && status !== undefined) return Number(status);
  throw new Error(`the guest ended unexpectedly: ${failed ? shortMessage : "it stopped"}`);
}

/** A text as one word of a shell script. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function qemuArguments(
  { architecture, emulator, kernel, initramfs, files, layers }: GuestImage,
  share: string,
): string[] {
  const { board, console } = machines[architecture];
  const tags = Object.keys(layers).join(":");
  const start = join(import.meta.dirname, "start.sh");
  const firmware = ["usr/share/qemu", "usr/share/seabios"].map((dir) => join(emulator, dir));
  return [
    ...["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"],
    ...[...board, "-m", "1024"],
    // The guest's clock counts its instructions, so that a busy machine does not make its timeouts expire.
    ...["-icount", "shift=0,sleep=on"],
    ...firmware.flatMap((path) => ["-L", path]),
    ...["-kernel", kernel, "-initrd", initramfs],
    ...["-append", `console=${console} quiet panic=-1 -- ${tags} ${start} ${files}`],
    ...["-device", "pcie-root-port,id=root-port,chassis=1,slot=1"],
    ...["-netdev", "hubport,id=hub,hubid=1", "-device", "igb,bus=root-port,netdev=hub,romfile="],
    ...Object.entries(layers).flatMap(([tag, path]) => shared(tag, path, "readonly=on")),
    ...shared("share", share, "readonly=off"),
  ];
}

/** A directory of this machine that the guest can mount. */
function shared(tag: string, path: string, access: string): string[] {
  const options = `local,path=${path},mount_tag=${tag},security_model=none,multidevs=remap`;
  return ["-virtfs", `${options},${access}`];
}
