// SPDX-License-Identifier: Apache-2.0

import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deployImage } from "../../../../scripts/release/image.ts";
import { nodeBinary, repositoryRoot } from "../../../support/paths.ts";
import { writeImage } from "../../machine/images.ts";
import { run } from "../../machine/run.ts";

/** The image that deploy/ names. */
export const defaultPlexusImage = deployImage();

/** The image to upgrade to. */
export const nextPlexusImage = "localhost/plexus:next";

/** Packs the image from dist/, as `make image` does, and returns the archive's path. */
export async function writePlexusImage(): Promise<string> {
  await runImageScript(`--name=${defaultPlexusImage}`);
  return join(repositoryRoot, "dist/plexus-image.tar");
}

/** Writes an image whose shim differs in its bytes, not in what it does: an upgrade has to replace it. */
export async function writeNextPlexusImage(directory: string): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "plexus-root-"));
  try {
    await runImageScript(`--rootfs=${root}`);
    await appendFile(join(root, "plexus/plexus"), "next");
    const archive = join(directory, "plexus-next.tar");
    return await writeImage({ reference: nextPlexusImage, root, archive });
  } finally {
    await rm(root, { recursive: true });
  }
}

async function runImageScript(flag: string): Promise<void> {
  const script = join(repositoryRoot, "scripts/image.ts");
  await run([nodeBinary(), script, "--version=e2e", flag], { cwd: repositoryRoot });
}
