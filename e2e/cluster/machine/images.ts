import { hash } from "node:crypto";
import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { run } from "./run.ts";

/** A container image of one layer, made from local files. */
export interface ImageOptions {
  /** Name and tag: `plexus.dev/e2e/busybox:1`. A tag other than latest keeps the kubelet from pulling it. */
  readonly reference: string;
  /** Another name and tag of it. */
  readonly alias?: string;
  /** The directory that becomes the image's root. */
  readonly root: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  /** UID or UID:GID. @default root */
  readonly user?: string;
  /** What its containers are stopped with. @default SIGTERM */
  readonly stopSignal?: NodeJS.Signals;
  /** The file to write: an archive as `docker save` makes it. */
  readonly archive: string;
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const architectures: Partial<Record<NodeJS.Architecture, string>> = {
  x64: "amd64",
  arm64: "arm64",
};

/** Writes an image archive that `ctr images import` reads, and returns its path. No registry is needed. */
export async function writeImage(options: ImageOptions): Promise<string> {
  const { archive, root, reference, alias } = options;
  await using scratch = await mkdtempDisposable(join(tmpdir(), "plexus-image-"));
  const layer = join(scratch.path, "layer.tar");
  const same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
  await run(["tar", ...same, "-C", root, "-cf", layer, "."]);
  const digest = hash("sha256", await readFile(layer));
  const config = JSON.stringify(imageConfig(options, digest));
  await writeFile(join(scratch.path, "config.json"), config);
  const names = alias === undefined ? [reference] : [reference, alias];
  const manifest = [{ Config: "config.json", RepoTags: names, Layers: ["layer.tar"] }];
  await writeFile(join(scratch.path, "manifest.json"), JSON.stringify(manifest));
  const parts = ["manifest.json", "config.json", "layer.tar"];
  await run(["tar", "-C", scratch.path, "-cf", archive, ...parts]);
  return archive;
}

function imageConfig(options: ImageOptions, layerDigest: string): object {
  return {
    architecture: architectures[process.arch],
    os: "linux",
    config: {
      Env: [defaultPath],
      Entrypoint: options.entrypoint,
      Cmd: options.command,
      User: options.user,
      StopSignal: options.stopSignal,
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${layerDigest}`] },
    history: [{ created_by: "plexus e2e" }],
  };
}

/** The image of every pod's sandbox: one program that waits. */
export const pauseImage = "plexus.dev/e2e/pause:1";

/** The image for test pods: busybox, with all its commands. */
export const busyboxImage = "plexus.dev/e2e/busybox:1";

/** The image of the documents' pods. The clusters' nodes have Debian's busybox under this name. */
const documentedImage = "docker.io/library/busybox:1.37";

/** Writes the image archive for sandboxes into a directory. */
export async function writePauseImage(init: string, directory: string): Promise<string> {
  return withRoot({ pause: init }, async (root) =>
    writeImage({
      reference: pauseImage,
      root,
      entrypoint: ["/pause"],
      user: "65535:65535",
      archive: join(directory, "pause.tar"),
    }),
  );
}

/** Writes the image archive for test pods into a directory. */
export function writeBusyboxImage(busybox: string, directory: string): Promise<string> {
  return writeImageOnBusybox(busybox, {
    reference: busyboxImage,
    alias: documentedImage,
    archive: join(directory, "busybox.tar"),
    files: {},
  });
}

/** Writes the archive of an image that has busybox with all its commands, and more files at the given paths. */
export async function writeImageOnBusybox(
  busybox: string,
  {
    files,
    command = ["sh"],
    ...names
  }: Pick<ImageOptions, "reference" | "alias" | "archive" | "command"> & {
    readonly files: Files;
  },
): Promise<string> {
  const commands = (await run([busybox, "--list"])).trim().split("\n");
  return withRoot({ "bin/busybox": busybox, ...files }, async (root) => {
    for (const name of commands.filter((command) => command !== "busybox")) {
      await symlink("busybox", join(root, "bin", name));
    }
    await mkdir(join(root, "etc"), { recursive: true });
    await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
    await writeFile(join(root, "etc/group"), "root:x:0:\n");
    await mkdir(join(root, "tmp"), { mode: 0o1777 });
    return writeImage({
      ...names,
      root,
      command,
      // The first process of a container ignores SIGTERM unless it handles it, and each pod would take its grace period.
      stopSignal: "SIGKILL",
    });
  });
}

/** The file or the directory to copy, by the path in the image. A later one goes over earlier ones. */
type Files = Readonly<Record<string, string>>;

/** Makes a directory with copies of files and directories at the given paths, for as long as `use` takes. */
export async function withRoot(
  files: Files,
  use: (root: string) => Promise<string>,
): Promise<string> {
  await using root = await mkdtempDisposable(join(tmpdir(), "plexus-root-"));
  for (const [path, source] of Object.entries(files)) {
    await mkdir(join(root.path, dirname(path)), { recursive: true });
    await cp(source, join(root.path, path), { recursive: true, verbatimSymlinks: true });
  }
  return await use(root.path);
}
