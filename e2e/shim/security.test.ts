// SPDX-License-Identifier: Apache-2.0
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type ExecOrder, encodePlan } from "./lab/frames.ts";
import { type Bench, cniError, type ExecResult, eachBuild } from "./lab/harness.ts";

/*
 * What somebody can do with the node who has taken over plexusd: its end of the socket, and its mounts
 * (docs/operations/security.md). Each test is one attempt.
 */

/** A program that leaves a mark when anything executes it, outside of the plugin directory. */
function program(bench: Bench, dir = bench.dir): { readonly name: string; wasRun(): boolean } {
  const mark = join(bench.dir, "was-run");
  bench.plugin("program", `touch ${mark}`, dir);
  return { name: "program", wasRun: () => existsSync(mark) };
}

/** The file of another owner on the host that an attempt is after. */
function victim(bench: Bench): { readonly path: string; isUnchanged(): boolean } {
  const path = join(bench.dir, "shadow");
  writeFileSync(path, "root:*:::::::\n", { mode: 0o600 });
  return { path, isUnchanged: () => readFileSync(path, "utf8") === "root:*:::::::\n" };
}

const planFile = (bench: Bench): string => join(bench.state, "c1@eth0.record");

function plan(bench: Bench, step: Partial<ExecOrder>): Buffer {
  const steps = [{ type: "noop", path: bench.bin, env: ["CNI_COMMAND=DEL"], ...step }];
  return encodePlan({ containerId: "c1", ifName: "eth0", steps });
}

const refused = (result: ExecResult): void => {
  expect(result).toMatchObject({ outcome: "refused", stdout: "", stderr: "" });
};

eachBuild("a stolen plexusd that gives orders", (bench) => {
  test.each(["ADD", "CHECK", "DEL", "GC", "STATUS"])(
    "executes no shell in %s, by whatever path [S-101]",
    async (CNI_COMMAND) => {
      for (const order of [
        { type: "sh", path: "/bin" },
        { type: "sh", path: "/bin", env: ["CNI_PATH=/bin"] },
        { type: "sh", path: `${bench().bin}:/usr/bin` },
        { type: "sh", path: `${bench().bin}/../../../../bin` },
        { type: "../../../bin/sh", path: bench().bin },
        { type: "/bin/sh", path: bench().bin },
      ])
        refused(await bench().order({ stdin: "exit 7", ...order }, { CNI_COMMAND }));
    },
  );

  test("executes nothing that it has put where it can write [S-101]", async () => {
    const { name, wasRun } = program(bench(), bench().state);
    refused(await bench().order({ type: name, path: bench().state }));
    expect(wasRun()).toBe(false);
  });

  test("cannot write the list of plugin directories for itself [S-101]", async () => {
    const { name, wasRun } = program(bench());
    writeFileSync(join(bench().state, "plugin-dirs"), `${bench().dir}\n`);
    symlinkSync(join(bench().state, "plugin-dirs"), bench().pluginDirs);
    refused(await bench().order({ type: name, path: bench().dir }));
    expect(wasRun()).toBe(false);
  });

  test("has installed plugins executed as root, with whatever configuration [S-107]", async () => {
    bench().plugin("plugin", 'echo "$(id -u) $CNI_ARGS $(cat)"');
    const env = ["CNI_ARGS=ANY=thing"];
    const result = await bench().order({ type: "plugin", stdin: '{"any":"thing"}', env });
    expect(result.stdout).toBe('0 ANY=thing {"any":"thing"}\n');
  });
});

eachBuild("a stolen plexusd that writes plans", (bench) => {
  test.each<[string, (path: string, bytes: Buffer) => void]>([
    ["readable by all", (path, bytes) => writeFileSync(path, bytes, { mode: 0o644 })],
    [
      "with a second link",
      (path, bytes) => {
        writeFileSync(`${path}.other`, bytes, { mode: 0o600 });
        linkSync(`${path}.other`, path);
      },
    ],
    [
      "a symbolic link",
      (path, bytes) => {
        writeFileSync(`${path}.other`, bytes, { mode: 0o600 });
        symlinkSync(`${path}.other`, path);
      },
    ],
  ])("has none executed that is %s [S-105]", async (_, plant) => {
    const mark = join(bench().dir, "was-run");
    bench().plugin("noop", `touch ${mark}`);
    plant(planFile(bench()), plan(bench(), {}));
    expect(cniError(await bench().run({ env: { CNI_COMMAND: "DEL" } })).code).toBe(6);
    expect(existsSync(mark)).toBe(false);
  });

  test.each<[string, Partial<ExecOrder>]>([
    ["a shell", { type: "sh", path: "/bin" }],
    ["an ADD", { env: ["CNI_COMMAND=ADD"] }],
    ["a variable of the loader", { env: ["LD_PRELOAD=/x.so"] }],
  ])("has no step executed that is %s [S-105]", async (_, step) => {
    const mark = join(bench().dir, "was-run");
    bench().plugin("noop", `touch ${mark}`);
    writeFileSync(planFile(bench()), plan(bench(), step), { mode: 0o600 });
    expect(cniError(await bench().run({ env: { CNI_COMMAND: "DEL" } })).code).toBe(102);
    expect(existsSync(mark)).toBe(false);
  });
});

eachBuild("a stolen plexusd that plants symbolic links", (bench) => {
  test("has no file of the host emptied in place of a plan [S-106]", async () => {
    const { path, isUnchanged } = victim(bench());
    const tombstone = join(bench().state, "c1@eth0.detached");
    bench().plugin("noop", "");
    writeFileSync(planFile(bench()), plan(bench(), {}), { mode: 0o600 });
    symlinkSync(path, tombstone);
    expect(await bench().run({ env: { CNI_COMMAND: "DEL" } })).toMatchObject({ code: 0 });
    expect(isUnchanged()).toBe(true);
    expect(lstatSync(tombstone).isFile()).toBe(true);
  });

  test.each([
    ["in place of the plan", ".record"],
    ["where the tombstone goes", ".detached"],
  ])("has none emptied when the link comes %s while it is replayed [S-106]", async (_, suffix) => {
    const { path, isUnchanged } = victim(bench());
    const file = planFile(bench());
    bench().plugin("noop", `rm ${file}; ln -s ${path} ${file.replace(".record", suffix)}`);
    writeFileSync(file, plan(bench(), {}), { mode: 0o600 });
    expect(cniError(await bench().run({ env: { CNI_COMMAND: "DEL" } }))).toMatchObject({
      code: 5,
      msg: expect.stringMatching(/everything is detached, but/),
    });
    expect(isUnchanged()).toBe(true);
  });

  test("has none made in place of the sandbox's lock [S-106]", async () => {
    const target = join(bench().dir, "made");
    symlinkSync(target, join(bench().state, "c1.lock"));
    expect(cniError(await bench().run()).code).toBe(5);
    expect(existsSync(target)).toBe(false);
  });
});

eachBuild("a stolen plexusd that does not answer", (bench) => {
  test.each(["ADD", "CHECK", "GC", "STATUS"])(
    "ends each %s after its limit [S-108]",
    async (CNI_COMMAND) => {
      await bench().engine(() => undefined);
      const env = { CNI_COMMAND, PLEXUS_SILENCE_MS: "300" };
      const answer = await bench().run({ env });
      expect([11, 50]).toContain(cniError(answer).code);
    },
  );

  test("holds a call up all the same, and fails it, by orders without end [S-114]", async () => {
    await bench().engine(async (engine) => {
      for (let i = 0; i < 5; i++) {
        await sleep(200);
        await engine.find(bench().bin, "p");
      }
      engine.done(1, '{"cniVersion":"1.0.0","code":7,"msg":"no"}\n');
    });
    const answer = await bench().run({ env: { PLEXUS_SILENCE_MS: "600" } });
    expect(answer).toMatchObject({ code: 1, stdout: expect.stringContaining('"msg":"no"') });
  });

  test("keeps no pod from being detached [S-108]", async () => {
    const mark = join(bench().dir, "was-run");
    bench().plugin("noop", `touch ${mark}`);
    writeFileSync(planFile(bench()), plan(bench(), {}), { mode: 0o600 });
    await bench().engine(() => undefined);
    const env = { CNI_COMMAND: "DEL", PLEXUS_SILENCE_MS: "300" };
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    expect(existsSync(mark)).toBe(true);
  });
});

eachBuild("a local user who is not root and calls the shim", (bench) => {
  test.each(["ADD", "DEL", "CHECK", "GC", "STATUS"])(
    "achieves nothing by %s [S-500]",
    async (CNI_COMMAND) => {
      let connections = 0;
      await bench().engine(() => void connections++);
      chmodSync(bench().socket, 0o600);
      bench().plugin("noop", `touch ${join(bench().dir, "was-run")}`);
      writeFileSync(planFile(bench()), plan(bench(), {}), { mode: 0o600 });
      const answer = await bench().run({ env: { CNI_COMMAND }, uid: 65534 });
      expect([5, 50]).toContain(cniError(answer).code);
      expect(answer.stdout).toMatch(/cannot (lock|reach) .*: permission denied/i);
      expect([connections, existsSync(join(bench().dir, "was-run"))]).toEqual([0, false]);
    },
  );
});
