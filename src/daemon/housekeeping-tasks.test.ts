import { mkdir, mkdtemp, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { sandboxLockName } from "#lib/files/state-files.ts";
import { defaultConfig } from "./config/config.ts";
import { type HousekeepingOptions, housekeepingTasks } from "./housekeeping-tasks.ts";

const web = { pod: "default/web" };

/** A daemon's directories and its engine; `runAll` does once what the timers do. */
async function makeDaemon() {
  const root = await mkdtemp(join(tmpdir(), "plexus-tasks-"));
  onTestFinished(() => rm(root, { recursive: true }));
  const [stateDir, bin, run] = ["state", "bin", "run"].map((dir) => join(root, dir)) as [
    string,
    string,
    string,
  ];
  for (const dir of [stateDir, bin, run]) await mkdir(dir);
  const lab = new EngineLab();
  lab.source.addPod({ name: "web" });
  const options: HousekeepingOptions = {
    flags: {
      source: { kind: "api" },
      socket: join(run, "plexus.sock"),
      stateDir,
    },
    nodeName: "node-1",
    inCluster: { host: "10.0.0.1", port: "443", serviceAccountDir: root },
    config: {
      current: () => ({
        ...defaultConfig,
        nodeConf: { ...defaultConfig.nodeConf, binDirs: [bin] },
      }),
      text: () => "logLevel: warn\n",
      onChange: () => undefined,
      onInvalid: () => undefined,
      close: () => undefined,
    },
    engine: lab.engine,
    records: lab.records,
    sockets: [],
    duties: undefined,
    confFiles: lab.files,
    logger: lab.logger,
  };
  const runAll = async (): Promise<void> => {
    for (const task of housekeepingTasks(options)) await task.run();
  };
  return { root, stateDir, bin, lab, runAll };
}

test("the credentials of the pod are kept where plexus-standalone is installed", async () => {
  const { root, stateDir, bin, runAll } = await makeDaemon();
  await runAll();
  const { kubeconfig } = standalonePaths(stateDir);
  await expect(stat(kubeconfig)).rejects.toThrow("ENOENT");
  await writeFile(join(bin, "plexus-standalone"), "", { mode: 0o755 });
  await writeFile(join(root, "ca.crt"), "the authority");
  await writeFile(join(root, "token"), "mine");
  await runAll();
  expect((await stat(kubeconfig)).mode & 0o777).toBe(0o600);
});

test("a pending status is published, but not of a sandbox that a shim may hold", async () => {
  const { stateDir, lab, runAll } = await makeDaemon();
  lab.publisher.outcome = "pending";
  await lab.add(web);
  lab.publisher.outcome = "settled";
  const lock = join(stateDir, sandboxLockName("c1"));
  await writeFile(lock, "");
  await runAll();
  expect(lab.publisher.published.size).toBe(0);
  const longAgo = Date.now() / 1000 - 700;
  await utimes(lock, longAgo, longAgo);
  await runAll();
  expect([...lab.publisher.published.keys()]).toEqual(["default/web"]);
});
