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

/** The image to upgrade to. */
export const nextPlexusImage = "localhost/plexus:next";

/** The image with plexus-standalone. */
const standaloneImage = "localhost/plexus:standalone";

/** The image with the reference plugins. */
const pluginsImage = "localhost/plexus:plugins";

/** Manifests with {@link standaloneImage}, from those of deploy/. */
export function useStandaloneImage(manifests: string): string {
  return manifests.replaceAll(defaultPlexusImage, standaloneImage);
}

/** Manifests with {@link pluginsImage}, from those of deploy/. */
export function usePluginsImage(manifests: string): string {
  return manifests.replaceAll(defaultPlexusImage, pluginsImage);
}

/** Manifests with the image under test, from those of deploy/. */
export function withPlexusImage(manifests: string): string {
  return manifests.replaceAll(defaultPlexusImage, plexusImage);
}

/** Packs the image from dist/, as `make image` does, and returns the archive's path. */
export async function writePlexusImage(): Promise<string> {
  await runImageScript(`--name=${defaultPlexusImage}`);
  return join(repositoryRoot, "dist/plexus-image.tar");
}

/** Writes an image whose shim differs in its bytes, not in what it does: an upgrade has to replace it. */
export async function writeNextPlexusImage(directory: string): Promise<string> {
  await using root = await mkdtempDisposable(join(tmpdir(), "plexus-root-"));
  await runImageScript(`--rootfs=${root.path}`);
  await appendFile(join(root.path, "plexus/plexus"), "next");
  const archive = join(directory, "plexus-next.tar");
  return await writeImage({ reference: nextPlexusImage, root: root.path, archive });
}

/** Writes {@link standaloneImage}, and returns the archive's path. */
export async function writeStandaloneImage(directory: string): Promise<string> {
  await using root = await mkdtempDisposable(join(tmpdir(), "plexus-root-"));
  await runImageScript(`--rootfs=${root.path}`, "--standalone");
  const archive = join(directory, "plexus-standalone.tar");
  return await writeImage({ reference: standaloneImage, root: root.path, archive });
}

/** Builds the reference plugins once, writes {@link pluginsImage}, and returns the archive's path. */
export async function writePluginsImage(directory: string): Promise<string> {
  const script = join(repositoryRoot, "scripts/image/reference-plugins.sh");
  const inputs = [await run(["go", "version"]), await readFile(script)];
  const plugins = await cachedDirectory("reference-plugins", inputs, async (to) => {
    await run([script, join(to, "plugins")]);
  });
  await using root = await mkdtempDisposable(join(tmpdir(), "plexus-root-"));
  await runImageScript(`--rootfs=${root.path}`);
  await cp(join(plugins, "plugins"), join(root.path, "plexus/plugins"), { recursive: true });
  const archive = join(directory, "plexus-plugins.tar");
  return await writeImage({ reference: pluginsImage, root: root.path, archive });
}

async function runImageScript(...flags: string[]): Promise<void> {
  const script = join(repositoryRoot, "scripts/image.ts");
  await run([nodeBinary(), script, "--version=e2e", ...flags], { cwd: repositoryRoot });
}
