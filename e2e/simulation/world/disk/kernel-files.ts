import { ground } from "../ground.ts";

/** What is in a file below /proc that the kernel provides; undefined for any other. */
export function kernelFile(path: string): string | undefined {
  const { kernel, schedule } = ground();
  const { bootId, containerBootId = bootId } = kernel;
  const isInContainer = schedule.current.name === "plexusd";
  if (path === "/proc/sys/kernel/random/boot_id")
    return `${isInContainer ? containerBootId : bootId}\n`;
  if (path !== "/proc/locks") return undefined;
  const lines = kernel
    .lockedInodes()
    .map((inode, index) => `${index + 1}: OFDLCK ADVISORY  WRITE -1 08:01:${inode} 0 0\n`);
  return lines.join("");
}
