import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { loadManifests, root } from "#daemon/config/testing/manifests.ts";
import { nodeBinary } from "../support/paths.ts";
import { releaseTool } from "./tools.ts";

const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));

beforeAll(async () => {
  for (const tool of ["helm", "crane", "cosign"] as const) await releaseTool(tool);
});

/** A registry on loopback until the test has finished, whose address this returns. */
async function startRegistry(): Promise<string> {
  const serve = ["registry", "serve", "--address", "127.0.0.1:0"];
  const registry = spawn(await releaseTool("crane"), serve, {
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(async () => {
    registry.kill();
    await once(registry, "exit");
  });
  for await (const line of createInterface(registry.stderr)) {
    const port = /serving on port (\d+)/.exec(line)?.[1];
    if (port !== undefined) return `127.0.0.1:${port}`;
  }
  throw new Error("the registry does not start");
}

test("the workflow's script pushes and signs a release, which README's commands then install", async () => {
  const registry = await startRegistry();
  const work = await mkdtemp(join(tmpdir(), "plexus-publish-"));
  onTestFinished(() => rm(work, { recursive: true }));
  const crane = await releaseTool("crane");
  const helm = await releaseTool("helm");
  const cosign = await releaseTool("cosign");
  const env = {
    PATH: [dirname(helm), dirname(cosign), process.env.PATH].join(delimiter),
    ...{ COSIGN_KEY: join(work, "cosign.key"), COSIGN_PASSWORD: "", COSIGN_TLOG_UPLOAD: "false" },
    ...{ COSIGN_ALLOW_HTTP_REGISTRY: "true", COSIGN_USE_SIGNING_CONFIG: "false" },
  };
  const publish = (...args: string[]) =>
    execa(join(root, "scripts/release/publish.sh"), args, { cwd: root, env });
  await execa(cosign, ["generate-key-pair"], { cwd: work, env });

  // In place of docker/build-push-action, which pushes what the Dockerfile makes.
  const image = `${registry}/example/plexus`;
  await execa(crane, ["push", "dist/plexus-image.tar", `${image}:v${version}`], { cwd: root });
  const { stdout: digest } = await execa(crane, ["digest", `${image}:v${version}`]);
  await publish("sign", `${image}@${digest}`);

  const out = join(work, "release");
  const named = `${image}:v${version}@${digest}`;
  const flags = ["--version", version, "--image", named, "--out", out];
  await execa(nodeBinary(), ["scripts/release.ts", ...flags], { cwd: root });
  const charts = `${image}/charts`;
  await publish("chart", join(out, `plexus-${version}.tgz`), charts, "--plain-http");
  await publish("checksums", out);

  // What a user does: verify, then install.
  const verify = [
    "--key",
    join(work, "cosign.pub"),
    "--insecure-ignore-tlog",
    "--allow-http-registry",
  ];
  const { stdout: chartDigest } = await execa(crane, ["digest", `${charts}/plexus:${version}`]);
  for (const reference of [`${image}@${digest}`, `${charts}/plexus@${chartDigest}`])
    await execa(cosign, ["verify", ...verify, reference]);
  const bundle = ["--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"];
  await execa(cosign, ["verify-blob", ...verify.slice(0, 3), ...bundle], { cwd: out });
  await execa(crane, ["copy", `${image}@${digest}`, `${image}/other`]);
  const unsigned = execa(cosign, ["verify", ...verify, `${image}/other@${digest}`]);
  await expect(unsigned).rejects.toThrow("no signatures found");

  const readme = await readFile(join(root, "README.md"), "utf8");
  const [, chart = "", ...installFlags] =
    /^helm install plexus (oci:\S+) (--version \S+) (.*)$/m.exec(readme) ?? [];
  const published = chart.replace(/^oci:\/\/ghcr\.io\/[^/]+\/[^/]+\//, `oci://${image}/`);
  const template = ["template", "plexus", published, ...installFlags.join(" ").split(" ")];
  const { stdout } = await execa(helm, [...template, "--plain-http", "--kube-version=1.30.0"]);
  expect(imagesOf(stdout)).toEqual([`${image}@${digest}`]);

  const urls = [...readme.matchAll(/-f (https:\S+)/g)].flatMap(([, url]) => url ?? []);
  const { spec } = parse(await readFile(join(out, "krew.yaml"), "utf8"));
  const folder = dirname(spec.platforms[0].uri);
  expect(urls.map(dirname)).toEqual([folder, folder]);
  const files = await Promise.all(
    urls.map((url) => readFile(join(out, url.slice(folder.length)), "utf8")),
  );
  const kinds = files.flatMap((text) => loadManifests(text).map(({ kind }) => kind));
  expect(kinds).toEqual(expect.arrayContaining(["CustomResourceDefinition", "DaemonSet"]));
  expect(imagesOf(files.join("\n"))).toEqual([`${image}@${digest}`]);
}, 300_000);

function imagesOf(manifests: string): string[] {
  const found = [...manifests.matchAll(/^ *image: (\S*plexus\S*)$/gm)];
  return [...new Set(found.flatMap(([, name]) => name ?? []))];
}
