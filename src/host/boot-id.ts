import { readFile } from "node:fs/promises";

/** The kernel's ID of the present boot. @throws Error as of node:fs */
export async function readBootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}
