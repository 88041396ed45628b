import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { distPath, nodeBinary } from "../../support/paths.ts";
import { startPlexusd } from "../../support/plexusd.ts";

/** A directory in which Node writes, at exit, which files a process executed. */
async function coverage() {
  const dir = await mkdtemp(join(tmpdir(), "plexus-loaded-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const written = join(dir, "coverage");
  await mkdir(written);
  /** Returns whether one of them contains the library, which takes 17 MB of memory. */
  const hasGrpc = async (): Promise<boolean> => {
    const files = (await readdir(written)).map((name) => readFile(join(written, name), "utf8"));
    const scripts = (await Promise.all(files)).flatMap(
      (text) => (JSON.parse(text) as { result: { url: string }[] }).result,
    );
    const own = scripts.filter(({ url }) => url.startsWith("file:"));
    expect(own).not.toHaveLength(0);
    const texts = await Promise.all(own.map(({ url }) => readFile(new URL(url), "utf8")));
    return texts.some((text) => text.includes("@grpc/grpc-js"));
  };
  return { dir, env: `NODE_V8_COVERAGE=${written}`, hasGrpc };
}

test("plexusd does not load the gRPC library until a network needs a device", async () => {
  const { dir, env, hasGrpc } = await coverage();
  await using api = await FakeApiServer.start();
  const plexusd = await startPlexusd({
    ...{ socket: join(dir, "plexus.sock"), stateDir: join(dir, "state") },
    logFile: join(dir, "log"),
    flags: ["--kubeconfig", await api.kubeconfig(), "--node", "node-1"],
    enter: (...command) => ["env", env, ...command],
  });
  await plexusd.stop("SIGTERM");
  expect(await hasGrpc()).toBe(false);
});

test("the gRPC library is recognised in the code that a process has loaded", async () => {
  const { dir, env, hasGrpc } = await coverage();
  const chunks = (await readdir(distPath("chunks"))).map((name) => distPath(`chunks/${name}`));
  const program = join(dir, "load.mjs");
  await writeFile(program, `for (const chunk of ${JSON.stringify(chunks)}) await import(chunk)`);
  await execa("env", [env, nodeBinary(), program]);
  expect(await hasGrpc()).toBe(true);
});
