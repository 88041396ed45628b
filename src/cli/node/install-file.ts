import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { swapIn } from "#lib/files/atomic-write.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";

/**
 * Installs an executable by copy, fsync and rename within its directory: running processes keep the
 * old file, the next execution gets the new one, and a crash leaves one or the other. A symlink at
 * the target is replaced, not followed.
 */
export async function installFile(from: string, to: string): Promise<"installed" | "unchanged"> {
  await sweepTemporaries(to);
  const digest = await sha256OfFile(from);
  if (await isInstalled(to, digest)) return "unchanged";
  await swapIn(to, createReadStream(from), {
    mode: 0o755,
    async beforeRename(file, temporary) {
      await file.sync();
      // Read back what will be executed, to detect a full or broken disk.
      if ((await sha256OfFile(temporary)) === digest) return;
      throw new Error(`${temporary} differs from ${from}`);
    },
  });
  await syncDirectory(dirname(to));
  return "installed";
}

async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

async function isInstalled(path: string, digest: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isFile() !== true || (found.mode & 0o7777) !== 0o755) return false;
  return (await sha256OfFile(path)) === digest;
}

/** Removes the files of an interrupted installation. */
async function sweepTemporaries(to: string): Promise<void> {
  const names = await readdir(dirname(to));
  const leftovers = names.filter((name) => targetOfTemporaryName(name) === basename(to));
  await Promise.all(leftovers.map((name) => rm(join(dirname(to), name), { force: true })));
}
