import { appendFile, cp, mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deployImage } from "../../../../scripts/release/image.ts";
import { nodeBinary, repositoryRoot } from "../../../support/paths.ts";
import { cachedDirectory } from "../../machine/cache.ts";
import { busyboxImage, writeImage } from "../../machine/images.ts";
import { run } from "../../machine/run.ts";
import { isGiven } from "./target.ts";

/** The image that deploy/ names. */
const defaultPlexusImage = deployImage();

/** The image of Plexus, as the node knows it. A given cluster must know it already, or be able to pull it. */
const plexusImage = (isGiven && process.env.PLEXUS_E2E_IMAGE) || defaultPlexusImage;

/** The image of test pods: busybox. */
export const podImage = isGiven
  ? (process.env.PLEXUS_E2E_POD_IMAGE ?? "docker.io/library/busybox:1.37")
  : busyboxImage;

/** Other images of Plexus: to upgrade to, with plexus-standalone, with the reference plugins. */
export const otherImages = {
  next: "localhost/plexus:next",
  standalone: "localhost/plexus:standalone",
  plugins: "localhost/plexus:plugins",
} as const;

/** Manifests with the image under test or another one, from those of deploy/. */
export function withPlexusImage(manifests: string, image = plexusImage): string {
  return manifests.replaceAll(defaultPlexusImage, image);
}

/** Packs the image from dist/, as `make image` does, and returns the archive's path. */
export async function writePlexusImage(): Promise<string> {
  await runImageScript(`--name=${defaultPlexusImage}`);
  return join(repositoryRoot, "dist/plexus-image.tar");
}

/** Writes another image, and returns the archive's path. */
export async function writeOtherImage(
  name: keyof typeof otherImages,
  directory: string,
): Promise<string> {
  await using root = await mkdtempDisposable(join(tmpdir(), "plexus-root-"));
  await runImageScript(`--rootfs=${root.path}`, ...(name === "standalone" ? ["--standalone"] : []));
  // The shim differs in its bytes, not in what it does: an upgrade has to replace it.
  if (name === "next") await appendFile(join(root.path, "plexus/plexus"), "next");
  if (name === "plugins")
    await cp(await referencePlugins(), join(root.path, "plexus/plugins"), { recursive: true });
  const archive = join(directory, `plexus-${name}.tar`);
  return await writeImage({ reference: otherImages[name], root: root.path, archive });
}

/** Builds the reference plugins once, and returns their directory. */
async function referencePlugins(): Promise<string> {
  const script = join(repositoryRoot, "scripts/image/reference-plugins.sh");
  const inputs = [await run(["go", "version"]), await readFile(script)];
  const built = await cachedDirectory("reference-plugins", inputs, async (to) => {
    await run([script, join(to, "plugins")]);
  });
  return join(built, "plugins");
}

async function runImageScript(...flags: string[]): Promise<void> {
  const script = join(repositoryRoot, "scripts/image.ts");
  await run([nodeBinary(), script, "--version=e2e", ...flags], { cwd: repositoryRoot });
}
