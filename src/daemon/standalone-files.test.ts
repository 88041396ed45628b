import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { StandaloneFiles, type StandaloneFilesOptions } from "./standalone-files.ts";

let stateDir: string;
let logger: FakeLogger;

beforeEach(async () => {
  stateDir = await temporaryDirectory();
  logger = new FakeLogger();
});

/** Installs plexus-standalone in the state directory, which is the plugin directory here. */
async function keeper(options: Partial<StandaloneFilesOptions> = {}): Promise<StandaloneFiles> {
  await writeFile(join(stateDir, "plexus-standalone"), "", { mode: 0o755 });
  const common = { stateDir, nodeName: "node-1", binDirs: () => [stateDir], logger };
  return new StandaloneFiles({ ...common, config: () => "logLevel: warn\n", ...options });
}

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

test("writes configuration and credentials when they change, readable by root only [S-502]", async () => {
  let token = "first";
  let config = "namespaceIsolation: true\n";
  const files = await keeper({ config: () => config, kubeconfig: async () => token });
  await files.refresh();
  const paths = standalonePaths(stateDir);
  expect(await readFile(paths.config, "utf8")).toBe("namespaceIsolation: true\n");
  expect(await readFile(paths.kubeconfig, "utf8")).toBe("first");
  expect(await readFile(paths.nodeName, "utf8")).toBe("node-1");
  const { dir, config: configFile, nodeName, kubeconfig } = paths;
  expect(await Promise.all([dir, configFile, nodeName, kubeconfig].map(modeOf))).toEqual([
    0o700, 0o600, 0o600, 0o600,
  ]);
  await files.refresh();
  expect(logger.lines).toHaveLength(3);
  token = "second";
  config = "";
  await files.refresh();
  expect(await readFile(paths.config, "utf8")).toBe("");
  expect(await readFile(paths.kubeconfig, "utf8")).toBe("second");
});

test("removes all files when plexus-standalone is uninstalled [S-502]", async () => {
  const files = await keeper({ kubeconfig: async () => "token" });
  await files.refresh();
  await rm(join(stateDir, "plexus-standalone"));
  await files.refresh();
  expect(await readdir(stateDir)).toEqual([]);
});

test("removes credentials that are no longer configured, and temporary files of a crash", async () => {
  await (await keeper({ kubeconfig: async () => "token" })).refresh();
  const { dir } = standalonePaths(stateDir);
  await writeFile(join(dir, ".kubeconfig.0123456789ab.tmp"), "half a tok");
  await (await keeper()).refresh();
  expect(await readdir(dir)).toEqual(["config.yaml", "node-name"]);
});

test("keeps the last credentials but writes the new configuration while the token is unreadable", async () => {
  await (await keeper({ kubeconfig: async () => "token" })).refresh();
  const failing = await keeper({
    config: () => "namespaceIsolation: true\n",
    kubeconfig: () => Promise.reject(new Error("ENOENT: token")),
  });
  await expect(failing.refresh()).rejects.toThrow("ENOENT: token");
  const { config, kubeconfig } = standalonePaths(stateDir);
  expect(await readFile(config, "utf8")).toBe("namespaceIsolation: true\n");
  expect(await readFile(kubeconfig, "utf8")).toBe("token");
});

test("notReadyReason() says why plexus-standalone cannot serve calls, while no valid token is kept", async () => {
  let failure: Error | undefined = new Error("the API server refused");
  const claims = { iat: 1, exp: Date.now() / 1000 + 3600 };
  const token = `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
  const kubeconfig = async (): Promise<string> => {
    if (failure !== undefined) throw failure;
    return JSON.stringify({ users: [{ user: { token } }] });
  };
  const files = await keeper({ kubeconfig });
  expect(files.notReadyReason()).toContain("not written yet");
  await expect(files.refresh()).rejects.toThrow("the API server refused");
  expect(files.notReadyReason()).toContain("cannot serve calls: the API server refused");
  const granted = failure;
  failure = undefined;
  await files.refresh();
  expect(files.notReadyReason()).toBeUndefined();
  // The kept token is valid.
  failure = granted;
  await expect(files.refresh()).rejects.toThrow("the API server refused");
  expect(files.notReadyReason()).toBeUndefined();
  await rm(join(stateDir, "plexus-standalone"));
  await files.refresh();
  expect(files.notReadyReason()).toContain(`it is not installed in ${stateDir}`);
});
