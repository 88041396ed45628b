import { mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DeviceInfoFiles } from "#engine/ports/devices.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { textIfPresent } from "#lib/files/read-file.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { cniDeviceInfoDir, ownerOfCniDeviceInfo } from "#npwg/device-info.ts";

/** Device plugins use the same modes: pods of any user mount such files. */
const fileMode = 0o644;
const directoryMode = 0o755;

/** Device information in the host's /run (device-info specification 1.1). */
export const hostDeviceInfoFiles: DeviceInfoFiles = {
  read: async (path) => textIfPresent(path, "above"),

  async copy(from, to) {
    const content = textIfPresent(from, "above");
    if (content === undefined) return false;
    await mkdir(dirname(to), { recursive: true, mode: directoryMode });
    await swapIn(to, content, { mode: fileMode });
    return true;
  },

  remove: (path) => rm(path, { force: true }),
};

/**
 * Removes files of containers without attachments, detached by a teardown plan without an engine.
 * `attachedContainers` is called after listing, because a file is written after its record.
 * @throws Error as of node:fs
 */
export async function sweepDeviceInfo(
  attachedContainers: () => Promise<ReadonlySet<string>>,
  dir: string = cniDeviceInfoDir,
): Promise<void> {
  const names = (await ifPresent(readdir(dir))) ?? [];
  const own = names.flatMap((name) => {
    const containerId = ownerOfCniDeviceInfo(targetOfTemporaryName(name) ?? name);
    return containerId === undefined ? [] : [{ name, containerId }];
  });
  if (own.length === 0) return;
  const attached = await attachedContainers();
  const abandoned = own.filter(({ containerId }) => !attached.has(containerId));
  await Promise.all(abandoned.map(({ name }) => rm(join(dir, name), { force: true })));
}
