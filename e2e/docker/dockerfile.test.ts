import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run } from "../cluster/machine/run.ts";
import { repositoryRoot } from "../support/paths.ts";
import { buildImage, DockerBuilder } from "./builder.ts";

let builder: DockerBuilder;

beforeAll(async () => {
  builder = await DockerBuilder.create();
});
afterAll(() => builder?.[Symbol.asyncDispose]());

/** What a container runtime gets of an image. */
interface Image {
  readonly config: object;
  /** Type, mode, owner, size, checksum and path of every file, by path. */
  readonly files: readonly string[];
}

/** Unpacks an archive of `docker save` or `make image`. */
async function unpack(archive: string, name: string): Promise<Image> {
  const work = join(builder.dir, name);
  const root = join(work, "root");
  await mkdir(root, { recursive: true });
  await run(["tar", "-C", work, "-xf", archive]);
  const [{ Config, Layers }] = JSON.parse(await readFile(join(work, "manifest.json"), "utf8"));
  for (const layer of Layers) await run(["tar", "-C", root, "-xf", join(work, layer)]);
  const { architecture, os, config } = JSON.parse(await readFile(join(work, Config), "utf8"));
  const { Entrypoint, Env, Labels } = config;
  const list = `find . -printf '%y %m %U:%G %p ' \\( -type f -exec sha256sum {} \\; -o -print \\)`;
  const files = (await run(["sh", "-c", list], { cwd: root })).split("\n").toSorted();
  return { config: { architecture, os, Entrypoint, Env, Labels }, files };
}

test("`docker build` on a fresh Debian makes the image of `make image`: files, labels, version, commit", async () => {
  const { version } = JSON.parse(await readFile(join(repositoryRoot, "package.json"), "utf8"));
  const { PLUGINS = "" } = process.env;
  const args = { BUILD_IMAGE: buildImage, COMMIT: "1a2b3c4d", STANDALONE: "1", PLUGINS };
  const flags = Object.entries(args).flatMap(([key, value]) => ["--build-arg", `${key}=${value}`]);
  await builder.build(repositoryRoot, ...flags, "--tag", "plexus");
  await builder.build(repositoryRoot, ...flags, "--tag", "build", "--target", "build");

  const built = join(builder.dir, "built.tar");
  await builder.run("docker", "save", "--output", built, "plexus");
  // Of the same dist/, without Docker.
  const flavour = `COMMIT=1a2b3c4d STANDALONE=1 PLUGINS=${PLUGINS}`;
  const make = `{ make image ${flavour}; } >&2 && cat dist/plexus-image.tar`;
  const made = join(builder.dir, "made.tar");
  const container = `docker run --rm --network none build sh -c '${make}' >"$0"`;
  await builder.run("sh", "-c", container, made);

  const [byDocker, byMake] = [await unpack(built, "built"), await unpack(made, "made")];
  expect(byDocker).toEqual(byMake);
  const paths = byMake.files.join("\n");
  expect(paths).toContain("./plexus/plexus-standalone");
  expect(paths.includes("./plexus/plugins/bridge")).toBe(PLUGINS !== "");
  expect(byDocker.config).toMatchObject({
    Labels: {
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.revision": "1a2b3c4d",
    },
  });
  const said = await run([join(builder.dir, "built/root/plexus/plexus"), "--version"]);
  expect(said).toBe(`plexus ${version} (1a2b3c4d)`);
}, 1_800_000);
