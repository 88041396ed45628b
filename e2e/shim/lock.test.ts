// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { type Bench, type Call, cniError, eachBuild } from "./harness.ts";

/** Holds a lock with util-linux's flock until it is killed. */
async function hold(path: string, kind: "-x" | "-s"): Promise<ChildProcess> {
  const child = spawn("flock", [kind, path, "sh", "-c", "echo held; exec sleep 60"], {
    detached: true,
  });
  await new Promise((held) => child.stdout.once("data", held));
  return child;
}

function release(child: ChildProcess): void {
  if (child.pid) process.kill(-child.pid, "SIGKILL");
}

/** An engine that keeps every call waiting until `open` is called, and counts the calls inside. */
async function gate(bench: Bench): Promise<{ inside: () => number; open: () => void }> {
  let inside = 0;
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  await bench.engine(async (engine) => {
    inside++;
    await opened;
    engine.done();
  });
  return { inside: () => inside, open };
}

eachBuild("the sandbox's lock", (bench) => {
  const start = (command: string, extra = {}): Call =>
    bench().start({ env: { CNI_COMMAND: command, ...extra } });

  test("calls of one sandbox wait for each other; the lock file goes with the last", async () => {
    const { inside, open } = await gate(bench());
    const first = start("ADD");
    await waitUntil("the call is under way", () => inside() === 1);
    expect(statSync(join(bench().state, "c1.lock")).mode & 0o777).toBe(0o600);
    const rest = [start("DEL"), start("CHECK"), start("ADD", { CNI_IFNAME: "eth1" })];
    await sleep(300);
    expect(inside()).toBe(1);
    open();
    for (const call of [first, ...rest]) expect(await call.ended).toMatchObject({ code: 0 });
    expect(readdirSync(bench().state)).toEqual([".gc.lock"]);
  });

  test("calls of different sandboxes, and STATUS, run side by side", async () => {
    const { inside, open } = await gate(bench());
    const calls = ["c1", "c2", "c3"].map((id) => start("ADD", { CNI_CONTAINERID: id }));
    calls.push(start("STATUS"));
    await waitUntil("all four calls are under way", () => inside() === 4);
    open();
    for (const call of calls) expect(await call.ended).toMatchObject({ code: 0 });
  });

  test("many calls of one sandbox never overlap, although the file comes and goes", async () => {
    let inside = 0;
    let most = 0;
    await bench().engine(async (engine) => {
      most = Math.max(most, ++inside);
      await sleep(5);
      inside--;
      engine.done();
    });
    const calls = Array.from({ length: 20 }, () => start("CHECK"));
    for (const call of calls) expect(await call.ended).toMatchObject({ code: 0 });
    expect(most).toBe(1);
  });

  test.each(["ADD", "DEL", "CHECK"])(
    "%s gives up with code 11 after the bounded wait",
    async (command) => {
      const path = join(bench().state, "c1.lock");
      const holder = await hold(path, "-x");
      const error = cniError(await start(command, { PLEXUS_LOCK_MS: "200" }).ended);
      release(holder);
      expect(error.code).toBe(11);
      expect(error.msg).toBe(
        `another operation on this sandbox is still running: ${path} was held for 200 ms`,
      );
      expect(existsSync(path)).toBe(true);
    },
  );

  test("a lock whose file was removed meanwhile is taken again", async () => {
    const { inside, open } = await gate(bench());
    const path = join(bench().state, "c1.lock");
    const holder = await hold(path, "-x");
    const call = start("ADD");
    await sleep(200);
    rmSync(path);
    release(holder);
    await waitUntil("the call is under way", () => inside() === 1);
    expect(existsSync(path)).toBe(true);
    const other = await start("DEL", { PLEXUS_LOCK_MS: "100" }).ended;
    expect(cniError(other).msg).toMatch(/^another operation on this sandbox is still running/);
    open();
    await call.ended;
  });

  test("a killed call leaves no lock behind", async () => {
    const { inside, open } = await gate(bench());
    const first = start("ADD");
    await waitUntil("the call is under way", () => inside() === 1);
    first.child.kill("SIGKILL");
    const second = start("DEL");
    await waitUntil("the second call is under way", () => inside() === 2);
    open();
    expect(await second.ended).toMatchObject({ code: 0 });
  });

  test("a call that began without a state directory leaves the lock file of a later one alone", async () => {
    const state = join(bench().dir, "later");
    const { inside, open } = await gate(bench());
    const call = start("ADD", { PLEXUS_STATE_DIR: state });
    await waitUntil("the call is under way", () => inside() === 1);
    mkdirSync(state);
    writeFileSync(join(state, "c1.lock"), "");
    open();
    expect(await call.ended).toMatchObject({ code: 0 });
    expect(readdirSync(state)).toEqual(["c1.lock"]);
  });

  test("is not inherited by what a delegate leaves running", async () => {
    const pid = join(bench().dir, "pid");
    bench().plugin("p", `sleep 30 >/dev/null 2>&1 </dev/null & echo $! >${pid}`);
    await bench().order({ type: "p" });
    const gc = await start("GC", { PLEXUS_LOCK_MS: "100" }).ended;
    expect(cniError(gc).msg).toMatch(/^cannot reach plexusd/);
    process.kill(Number(readFileSync(pid, "utf8")));
  });
});

eachBuild("garbage collection", (bench) => {
  const run = (command: string) =>
    bench().run({ env: { CNI_COMMAND: command, PLEXUS_LOCK_MS: "200" } });

  test.each([
    ["GC", "-s"],
    ["GC", "-x"],
    ["ADD", "-x"],
    ["DEL", "-x"],
    ["CHECK", "-x"],
  ] as const)("%s waits while another holds the node's lock (flock %s)", async (command, how) => {
    await bench().engine((engine) => engine.done());
    const path = join(bench().state, ".gc.lock");
    const holder = await hold(path, how);
    const error = cniError(await run(command));
    release(holder);
    expect(error).toMatchObject({ code: 11 });
    expect(error.msg).toBe(
      `another operation on this node is still running: ${path} was held for 200 ms`,
    );
    expect(await run(command)).toMatchObject({ code: 0 });
    expect(readdirSync(bench().state)).toEqual([".gc.lock"]);
  });

  test.each(["ADD", "DEL", "CHECK"])("%s shares the node's lock", async (command) => {
    await bench().engine((engine) => engine.done());
    const holder = await hold(join(bench().state, ".gc.lock"), "-s");
    expect(await run(command)).toMatchObject({ code: 0 });
    release(holder);
  });

  test("STATUS never waits", async () => {
    await bench().engine((engine) => engine.done());
    const holder = await hold(join(bench().state, ".gc.lock"), "-x");
    expect(await run("STATUS")).toMatchObject({ code: 0 });
    release(holder);
  });

  test("without a state directory nothing is locked or created", async () => {
    const dir = join(bench().dir, "none");
    await bench().engine((engine) => engine.done());
    for (const CNI_COMMAND of ["ADD", "GC", "DEL"])
      expect(await bench().run({ env: { CNI_COMMAND, PLEXUS_STATE_DIR: dir } })).toMatchObject({
        code: 0,
      });
    expect(existsSync(dir)).toBe(false);
  });
});
