import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { defaultConfig } from "./config/config.ts";
import { housekeepingTasks } from "./housekeeping-tasks.ts";
import { standaloneCredentials } from "./standalone-credentials.ts";
import { StandaloneFiles } from "./standalone-files.ts";

test("the tasks save credentials for plexus-standalone", async () => {
  const root = await temporaryDirectory();
  const stateDir = join(root, "state");
  await mkdir(stateDir);
  const lab = new EngineLab();
  const nodeConf = { ...defaultConfig.nodeConf, binDirs: [root] };
  const flags = { source: { kind: "api" as const } };
  const inCluster = { host: "10.0.0.1", port: "443", serviceAccountDir: root };
  const standaloneFiles = new StandaloneFiles({
    ...{ stateDir, nodeName: "node-1", binDirs: () => [root], logger: lab.logger },
    config: () => "logLevel: warn\n",
    ...standaloneCredentials({ flags, inCluster, cluster: {}, logger: lab.logger }),
  });
  const tasks = housekeepingTasks({
    standaloneFiles,
    config: { current: () => ({ ...defaultConfig, nodeConf }) },
    cluster: {},
    engine: lab.engine,
    records: lab.records,
    sockets: [],
    duties: undefined,
    confFiles: lab.files,
  });
  const runAll = async (): Promise<void> => {
    for (const task of tasks) await task.run();
  };
  await runAll();
  const { kubeconfig } = standalonePaths(stateDir);
  await expect(stat(kubeconfig)).rejects.toThrow("ENOENT");

  const files = { "plexus-standalone": "", "ca.crt": "the authority", token: "mine" };
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text);
  await runAll();
  expect((await stat(kubeconfig)).mode & 0o777).toBe(0o600);
});
