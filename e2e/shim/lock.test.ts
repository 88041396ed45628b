import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { FileRecordStore } from "#records/file-store.ts";
import { isRunning, waitForExit } from "../support/processes.ts";
import { waitUntil } from "../support/wait.ts";
import { type Bench, type Call, cniError, eachBuild } from "./lab/harness.ts";

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

eachBuild("the per-sandbox lock", (bench) => {
  test("fails at once where the file system has no locks", async () => {
    const starter = [bench().compile("without"), "flock"];
    const answer = await bench().run({ starter });
    expect(cniError(answer)).toMatchObject({
      code: 5,
      msg: `cannot lock ${bench().state}: No locks available`,
    });
    expect(answer.ms).toBeLessThan(5000);
  });

  const start = (command: string, extra = {}): Call =>
    bench().start({ env: { CNI_COMMAND: command, ...extra } });

  test("makes calls of one sandbox wait for each other; the last call removes the lock file", async () => {
    const { inside, open } = await gate(bench());
    const first = start("ADD");
    await waitUntil("the call is under way", () => inside() === 1);
    expect(statSync(join(bench().state, "c1.lock")).mode & 0o777).toBe(0o600);
    const rest = [start("DEL"), start("CHECK"), start("ADD", { CNI_IFNAME: "eth1" })];
    await sleep(300);
    expect(inside()).toBe(1);
    open();
    for (const call of [first, ...rest]) expect(await call.ended).toMatchObject({ code: 0 });
    expect(readdirSync(bench().state)).toEqual([]);
  });

  test("that is a FIFO is named by the ADD that fails, and does not stop a DEL", async () => {
    const lock = join(bench().state, "c1.lock");
    execFileSync("mkfifo", [lock]);
    bench().plugin("p", "true");
    const order = (command: string) => ({
      ...{ type: "p", path: bench().bin, env: [`CNI_COMMAND=${command}`] },
    });
    await bench().engine(async (engine) => {
      expect(await engine.exec(order("ADD"))).toMatchObject({
        outcome: "failed",
        message: `cannot note the plugin's process in ${lock}: it is not a regular file; remove it`,
      });
      expect(await engine.exec(order("DEL"))).toMatchObject({ outcome: "exited", message: "" });
      engine.done();
    });
    expect(await bench().run({ env: { CNI_COMMAND: "ADD" } })).toMatchObject({ code: 0 });
  });

  test("lets calls of different sandboxes, and STATUS, run in parallel", async () => {
    const { inside, open } = await gate(bench());
    const calls = ["c1", "c2", "c3"].map((id) => start("ADD", { CNI_CONTAINERID: id }));
    calls.push(start("STATUS"));
    await waitUntil("all four calls are under way", () => inside() === 4);
    open();
    for (const call of calls) expect(await call.ended).toMatchObject({ code: 0 });
  });

  test("keeps 20 calls of one sandbox from overlapping, although calls remove and recreate its file", async () => {
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
    "fails %s with code 11 if it is not free in time",
    async (command) => {
      const path = join(bench().state, "c1.lock");
      const holder = await hold(path, "-x");
      const error = cniError(await start(command, { PLEXUS_LOCK_MS: "200" }).ended);
      release(holder);
      expect(error).toMatchObject({ code: 11, reason: "TryAgainLater" });
      expect(error.msg).toBe(
        `another operation on this sandbox is still running: it has held ${path} for 200 ms`,
      );
      expect(existsSync(path)).toBe(true);
    },
  );

  test("is taken again if its file was removed meanwhile", async () => {
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

  test("is released if the shim is killed", async () => {
    const { inside, open } = await gate(bench());
    const first = start("ADD");
    await waitUntil("the call is under way", () => inside() === 1);
    first.child.kill("SIGKILL");
    const second = start("DEL");
    await waitUntil("the second call is under way", () => inside() === 2);
    open();
    expect(await second.ended).toMatchObject({ code: 0 });
  });

  test("creates the state directory if that is missing", async () => {
    const dir = join(bench().dir, "none");
    await bench().engine((engine) => engine.done());
    for (const CNI_COMMAND of ["ADD", "GC", "DEL"]) {
      expect(await start(CNI_COMMAND, { PLEXUS_STATE_DIR: dir }).ended).toMatchObject({ code: 0 });
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      rmSync(dir, { recursive: true });
    }
  });

  test("fails the call if the state directory cannot be created", async () => {
    const PLEXUS_STATE_DIR = join(bench().dir, "none", "none");
    expect(cniError(await start("DEL", { PLEXUS_STATE_DIR }).ended)).toMatchObject({
      code: 5,
      msg: `cannot lock ${PLEXUS_STATE_DIR}: it does not exist`,
    });
  });
});

eachBuild("the node lock of a GC", (bench) => {
  test("blocks other calls during a plugin's GC, and only another GC from the first DEL on", async () => {
    const { bin } = bench();
    bench().plugin("p", "");
    const waiting = ["ADD", "GC"].map((CNI_COMMAND) => ({ CNI_COMMAND, PLEXUS_LOCK_MS: "200" }));
    const codes: (number | null)[] = [];
    const tryBoth = async (): Promise<void> => {
      for (const env of waiting) codes.push((await bench().run({ env })).code);
    };
    await bench().engine(async (engine) => {
      if (codes.length > 0) return engine.done();
      await engine.exec({ type: "p", path: bin, env: ["CNI_COMMAND=GC"] });
      await tryBoth();
      await engine.exec({ type: "p", path: bin, env: ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c9"] });
      await tryBoth();
      engine.done();
    });
    expect(await bench().run({ env: { CNI_COMMAND: "GC" } })).toMatchObject({ code: 0 });
    expect(codes).toEqual([1, 1, 0, 1]);
  });
});

eachBuild("a GC beside a Docker driver", (bench) => {
  const gc = { CNI_COMMAND: "GC", PLEXUS_TURN_MS: "200" };

  test("excludes the driver's calls until the first DEL", async () => {
    const { bin, state } = bench();
    const driver = join(state, "docker", "records");
    mkdirSync(driver, { recursive: true });
    bench().plugin("p", "");
    const free: boolean[] = [];
    await bench().engine(async (engine) => {
      for (const env of [["CNI_COMMAND=GC"], ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c9"]]) {
        await engine.exec({ type: "p", path: bin, env });
        free.push(spawnSync("flock", ["-s", "-n", driver, "true"]).status === 0);
      }
      engine.done();
    });
    expect(await bench().run({ env: gc })).toMatchObject({ code: 0 });
    expect(free).toEqual([false, true]);
  });

  test("waits for them, but not for a long one", async () => {
    await bench().engine((engine) => engine.done());
    const driver = join(bench().state, "docker", "records");
    mkdirSync(driver, { recursive: true });
    const holder = await hold(driver, "-s");
    expect(cniError(await bench().run({ env: gc }))).toMatchObject({
      code: 11,
      msg: `an operation of the Docker driver is still running: it has held ${driver} for 200 ms`,
    });
    const waiting = bench().start({ env: { ...gc, PLEXUS_TURN_MS: "20000" } });
    await waitUntil("the GC waits", () => hasOpen(waiting.child, driver));
    release(holder);
    expect(await waiting.ended).toMatchObject({ code: 0 });
  });
});

/** An engine that notes the calls inside, by command and container, and ends each when the test says so. */
async function namedGates(bench: Bench) {
  const inside: string[] = [];
  const opened = new Map<string, () => void>();
  await bench.engine(async (engine) => {
    const variables = engine.request.fields.map(String);
    const variable = (name: string): string =>
      variables.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
    const call = `${variable("CNI_COMMAND")} ${variable("CNI_CONTAINERID")}`.trim();
    inside.push(call);
    await new Promise<void>((resolve) => opened.set(call, resolve));
    engine.done();
  });
  const isInside = (call: string): Promise<unknown> =>
    waitUntil(`${call} is under way`, () => opened.has(call));
  return { inside, isInside, open: (call: string) => opened.get(call)?.() };
}

/** The `flock` and `F_OFD_SETLK` locks of the state directory, as `TYPE MODE`, waiting ones left out. */
function locksOf(dir: string): string[] {
  const inode = `:${statSync(dir).ino} `;
  const lines = readFileSync("/proc/locks", "utf8").split("\n");
  return lines.flatMap((line) => {
    const [, kind, , mode] = line.split(/\s+/);
    return line.includes(inode) && !line.includes("->") ? [`${kind} ${mode}`] : [];
  });
}

eachBuild("a GC that waits for the node", (bench) => {
  const start = (command: string, id: string, extra = {}): Call =>
    bench().start({ env: { CNI_COMMAND: command, CNI_CONTAINERID: id, ...extra } });

  test("is not overtaken: operations that come later run after it", async () => {
    const { inside, isInside, open } = await namedGates(bench());
    const running = start("ADD", "c1");
    await isInside("ADD c1");
    const gc = start("GC", "");
    await waitUntil("the GC waits", () => locksOf(bench().state).includes("OFDLCK READ"));
    const later = [start("ADD", "c2"), start("DEL", "c3")];
    await waitUntil("both wait", () => later.every(({ child }) => hasOpen(child, bench().state)));
    open("ADD c1");
    await isInside("GC");
    expect(inside).toEqual(["ADD c1", "GC"]);
    open("GC");
    for (const call of ["ADD c2", "DEL c3"]) {
      await isInside(call);
      open(call);
    }
    for (const call of [running, gc, ...later]) expect(await call.ended).toMatchObject({ code: 0 });
  });

  test.each([
    ["waits for a long operation", "SIGCONT"],
    ["is stopped", "SIGSTOP"],
  ] as const)("delays others for one turn only, while it %s", async (_, signal) => {
    const { isInside, open } = await namedGates(bench());
    const running = start("ADD", "c1");
    await isInside("ADD c1");
    const gc = start("GC", "");
    await waitUntil("the GC waits", () => locksOf(bench().state).includes("OFDLCK READ"));
    gc.child.kill(signal);
    const begun = Date.now();
    const other = start("ADD", "c2", { PLEXUS_TURN_MS: "500" });
    await isInside("ADD c2");
    expect(Date.now() - begun).toBeGreaterThanOrEqual(500);
    gc.child.kill("SIGCONT");
    for (const call of ["ADD c1", "ADD c2"]) open(call);
    await isInside("GC");
    open("GC");
    for (const call of [running, other, gc]) expect(await call.ended).toMatchObject({ code: 0 });
  });

  test("ends its turn after a while, and begins another one", async () => {
    const { isInside, open } = await namedGates(bench());
    const running = start("ADD", "c1");
    await isInside("ADD c1");
    const gc = start("GC", "", { PLEXUS_TURN_MS: "200" });
    const isMarked = (): boolean => locksOf(bench().state).includes("OFDLCK READ");
    await waitUntil("its turn begins", isMarked);
    await waitUntil("its turn ends", () => !isMarked());
    await waitUntil("its next turn begins", isMarked);
    open("ADD c1");
    await isInside("GC");
    expect(isMarked()).toBe(false);
    open("GC");
    for (const call of [running, gc]) expect(await call.ended).toMatchObject({ code: 0 });
  });
});

/** True if the process has the directory open. */
function hasOpen({ pid }: ChildProcess, dir: string): boolean {
  try {
    const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    return open.includes(dir);
  } catch {
    return false;
  }
}

eachBuild("a DEL of another sandbox", (bench) => {
  const del = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c9"];

  test("by an agent that has no state directory runs without locks", async () => {
    bench().plugin("p", "");
    let outcome: string | undefined;
    await bench().engine(async (engine) => {
      outcome = (await engine.exec({ type: "p", path: bench().bin, env: del })).outcome;
      engine.done();
    });
    const PLEXUS_STATE_DIR = join(bench().dir, "none");
    const agent = bench().start({
      args: ["agent", "--once"],
      stdin: "",
      env: { PLEXUS_STATE_DIR },
    });
    expect(await agent.ended).toMatchObject({ code: 0 });
    expect(outcome).toBe("exited");
  });

  test.each(["STATUS", "agent"])("by %s runs beside no GC", async (by) => {
    const { state, bin } = bench();
    const begun = join(bench().dir, "begun");
    bench().plugin("p", `echo >${begun}; while [ -e ${begun} ]; do sleep 0.05; done`);
    const outcomes: (string | undefined)[] = [];
    await bench().engine(async (engine) => {
      if (engine.request.fields.map(String).includes("CNI_COMMAND=GC")) return engine.done();
      outcomes.push((await engine.exec({ type: "p", path: bin, env: del })).outcome);
      engine.done();
    });
    const start = (): Call =>
      by === "agent"
        ? bench().start({ args: ["agent", "--once"], stdin: "" })
        : bench().start({ env: { CNI_COMMAND: "STATUS" } });
    const holder = await hold(state, "-x");
    await start().ended;
    release(holder);
    await waitUntil("the node is free", () => locksOf(state).length === 0);
    expect(outcomes).toEqual(["refused"]);
    const call = start();
    await waitUntil("the plugin runs", () => existsSync(begun));
    const gc = bench().start({ env: { CNI_COMMAND: "GC" } });
    await waitUntil("the GC waits", () => locksOf(state).includes("OFDLCK READ"));
    rmSync(begun);
    for (const each of [call, gc]) expect(await each.ended).toMatchObject({ code: 0 });
    expect(outcomes).toEqual(["refused", "exited"]);
  });
});

/** A hanging IPAM plugin of a call whose shim was killed. Later calls execute nothing. */
async function hangingIpam(bench: Bench, CNI_COMMAND = "ADD"): Promise<number> {
  const begun = join(bench.dir, "begun");
  const ipam = bench.plugin("ipam", `echo $$ >${begun}; exec sleep 60`);
  bench.plugin("p", `${ipam}; echo`);
  await bench.engine(async (engine) => {
    const env = [`CNI_COMMAND=${CNI_COMMAND}`];
    if (!existsSync(begun)) await engine.exec({ type: "p", path: bench.bin, env });
    engine.done();
  });
  const call = bench.start({ env: { CNI_COMMAND } });
  const readPid = (): number => (existsSync(begun) ? Number(readFileSync(begun, "utf8")) : 0);
  const pid = await waitUntil("the IPAM plugin has begun", () => readPid() || undefined);
  call.child.kill("SIGKILL");
  await call.ended;
  return pid;
}

/** Makes the state directory a separate file system with this many inodes, and bytes if not 0. */
function smallState({ state }: Bench, inodes: number, bytes = 0): string {
  const options = `nr_inodes=${inodes},size=${bytes},mode=0700`;
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "plexus", state]);
  return state;
}

eachBuild("in a full or read-only state directory", (bench) => {
  afterEach(() => void execFileSync("umount", ["-l", bench().state]));

  test("calls that cannot create a lock file still run one at a time", async () => {
    const state = smallState(bench(), 1);
    let inside = 0;
    let most = 0;
    await bench().engine(async (engine) => {
      most = Math.max(most, ++inside);
      expect(existsSync(join(state, "c1.lock"))).toBe(false);
      await sleep(50);
      inside--;
      engine.done();
    });
    const calls = ["ADD", "DEL", "DEL", "GC"].map((CNI_COMMAND, i) =>
      bench().start({ env: { CNI_COMMAND, CNI_CONTAINERID: `c${i % 2}` } }),
    );
    for (const call of calls) expect(await call.ended).toMatchObject({ code: 0, stdout: "" });
    expect(most).toBe(1);
  });

  test("a DEL that cannot create a lock file waits for calls that have one", async () => {
    const state = smallState(bench(), 3);
    const { inside, open } = await gate(bench());
    const first = bench().start();
    await waitUntil("the call is under way", () => inside() === 1);
    writeFileSync(join(state, "filler"), "");
    const other = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c2", PLEXUS_LOCK_MS: "200" };
    const error = cniError(await bench().run({ env: other }));
    expect(error).toMatchObject({
      code: 11,
      msg: `another operation on this node is still running: it has held ${state} for 200 ms`,
    });
    open();
    await first.ended;
  });

  test("a call that cannot create a lock file counts as one of every sandbox, so that plexusd detaches no leftover beside it", async () => {
    const state = smallState(bench(), 1);
    const store = await FileRecordStore.open(state);
    const { inside, open } = await gate(bench());
    const call = bench().start();
    await waitUntil("the call is under way", () => inside() === 1);
    expect(await store.isLocked("c9")).toBe(true);
    open();
    await call.ended;
  });

  test.each([
    ["file", 1, "No space left on device"],
    ["content", 10, "No space left on device"],
  ])(
    "a plugin attaches only if its process can be noted in the lock file, and detaches in any case: no room for the %s",
    async (_, inodes, problem) => {
      const state = smallState(bench(), inodes, 4096);
      if (inodes > 1) writeFileSync(join(state, "filler"), "x".repeat(4096));
      const { bin } = bench();
      bench().plugin("p", "true");
      const outcomes: string[] = [];
      await bench().engine(async (engine) => {
        for (const command of ["ADD", "DEL"]) {
          const env = [`CNI_COMMAND=${command}`];
          const { outcome, message } = await engine.exec({ type: "p", path: bin, env });
          outcomes.push(`${command} ${outcome} ${message}`);
        }
        engine.done();
      });
      await bench().run({ env: { CNI_COMMAND: "ADD" } });
      expect(outcomes).toEqual([
        `ADD failed cannot note the plugin's process in ${state}/c1.lock: ${problem}`,
        "DEL exited ",
      ]);
    },
  );

  test("a DEL that cannot create a lock file kills no plugin that a killed shim left", async () => {
    smallState(bench(), 1);
    const pid = await hangingIpam(bench(), "DEL");
    const env = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "300" };
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    bench().forgiveEngine();
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });

  test("a DEL that plexusd answers succeeds, also if the directory is read-only", async () => {
    const state = smallState(bench(), 10);
    execFileSync("mount", ["-o", "remount,ro", state]);
    await bench().engine((engine) => engine.done());
    expect(await bench().run({ env: { CNI_COMMAND: "DEL" } })).toMatchObject({ code: 0 });
  });
});

eachBuild("a process that a delegate leaves running", (bench) => {
  /** Has an ADD run a plugin that starts this in the background, and returns its process. */
  const leave = async (script: string): Promise<number> => {
    const pid = join(bench().dir, "pid");
    bench().plugin("p", `(${script}) >/dev/null 2>&1 </dev/null & echo $! >${pid}`);
    await bench().order({ type: "p" });
    return Number(readFileSync(pid, "utf8"));
  };

  test("delays the next operation until it ends, and keeps the lock file until then [S-603]", async () => {
    const done = join(bench().dir, "done");
    await leave(`sleep 1; touch ${done}`);
    expect(existsSync(join(bench().state, "c1.lock"))).toBe(true);
    let seen = false;
    await bench().engine((engine) => {
      seen = existsSync(done);
      engine.done();
    });
    expect(await bench().run({ env: { CNI_COMMAND: "DEL" } })).toMatchObject({ code: 0 });
    expect(seen).toBe(true);
    expect(readdirSync(bench().state)).toEqual([]);
  });

  test("delays its own sandbox for a limited time, and other sandboxes and GC not at all [S-603]", async () => {
    const pid = await leave("exec sleep 60");
    await bench().engine((engine) => engine.done());
    const times: number[] = [];
    for (const env of [
      { CNI_COMMAND: "GC" },
      { CNI_CONTAINERID: "c2" },
      { CNI_CONTAINERID: "c1" },
    ]) {
      const call = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "2000", ...env };
      const answer = await bench().run({ env: call });
      expect(answer).toMatchObject({ code: 0 });
      times.push(Math.floor(answer.ms / 2000));
    }
    expect(times).toEqual([0, 0, 1]);
    expect(isRunning(pid)).toBe(true);
    expect(existsSync(join(bench().state, "c1.lock"))).toBe(true);
    process.kill(pid);
  });

  test("keeps the lock file after a DEL; the sweep removes an old one when the process has ended", async () => {
    const { state } = bench();
    const pid = await leave("exec setsid sleep 60");
    await bench().engine((engine) => engine.done());
    const env = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "300" };
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    const store = await FileRecordStore.open(state);
    utimesSync(join(state, "c1.lock"), 0, 0);
    await store.sweep();
    expect([isRunning(pid), readdirSync(state)]).toEqual([true, ["c1.lock"]]);
    process.kill(pid);
    await waitForExit(pid);
    await store.sweep();
    expect(readdirSync(state)).toEqual([]);
  });

  test("may allocate an address after its shim was killed: the DEL waits and releases the address", async () => {
    const begun = join(bench().dir, "begun");
    const address = join(bench().dir, "address");
    const ipam = bench().plugin("ipam", `touch ${begun}; sleep 1; touch ${address}`);
    bench().plugin("p", `[ "$CNI_COMMAND" = DEL ] && { rm ${address}; exit; }; ${ipam}; echo`);
    const results: string[] = [];
    await bench().engine(async (engine) => {
      const { outcome, code } = await engine.exec({ type: "p", path: bench().bin });
      results.push(`${outcome} ${code}`);
      engine.done();
    });
    const add = start("ADD");
    await waitUntil("the straggler has begun", () => existsSync(begun));
    add.child.kill("SIGKILL");
    await add.ended;
    bench().forgiveEngine();
    expect(existsSync(address)).toBe(false);
    expect(await start("DEL").ended).toMatchObject({ code: 0 });
    expect([results, existsSync(address)]).toEqual([["exited 0"], false]);
    bench().forgiveEngine();
  });

  test("is killed by the next DEL if its shim was killed and it hangs", async () => {
    const pid = await hangingIpam(bench());
    const env = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "300" };
    expect(await bench().run({ env })).toMatchObject({ code: 0 });
    bench().forgiveEngine();
    await waitForExit(pid);
    expect(readdirSync(bench().state)).toEqual([]);
  });

  test("is found among more processes than the shim may have files", async () => {
    const others = Array.from({ length: 60 }, () => spawn("sleep", ["60"]));
    const pid = await hangingIpam(bench());
    const env = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "300" };
    const { code } = await bench().run({ env, starter: ["prlimit", "--nofile=48"] });
    bench().forgiveEngine();
    for (const each of others) each.kill();
    expect(code).toBe(0);
    await waitForExit(pid);
  });

  const start = (CNI_COMMAND: string): Call => bench().start({ env: { CNI_COMMAND } });
});

eachBuild("a delegate that detaches another sandbox", (bench) => {
  const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
  const status = { env: { CNI_COMMAND: "STATUS" } };

  test("has that sandbox's lock: a DEL of it waits for the delegate, although the engine has ended", async () => {
    const { bin, dir, state } = bench();
    const [begun, done] = [join(dir, "begun"), join(dir, "done")];
    bench().plugin("p", `touch ${begun}; sleep 1; touch ${done}`);
    const served: boolean[] = [];
    await bench().engine(async (engine) => {
      if (engine.request.fields.map(String).includes("CNI_COMMAND=DEL")) {
        served.push(existsSync(done));
        return engine.done();
      }
      void engine.exec({ type: "p", path: bin, env }).catch(() => undefined);
      await waitUntil("the delegate has begun", () => existsSync(begun));
      engine.socket.destroy();
    });
    const first = bench().start(status);
    await waitUntil("the delegate has begun", () => existsSync(begun));
    const del = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c2" };
    expect(await bench().run({ env: del })).toMatchObject({ code: 0 });
    expect(served).toEqual([true]);
    expect(cniError(await first.ended)).toMatchObject({ code: 11 });
    expect(readdirSync(state)).toEqual([]);
  });

  test("is not run while another operation on that sandbox is running", async () => {
    const path = join(bench().state, "c2.lock");
    bench().plugin("p", "exit 0");
    const results: string[] = [];
    await bench().engine(async (engine) => {
      const order = async (): Promise<void> => {
        const { outcome, message } = await engine.exec({ type: "p", path: bench().bin, env });
        results.push(`${outcome} ${message}`);
      };
      const holder = await hold(path, "-x");
      await order();
      release(holder);
      await waitUntil("the lock is free", () => {
        return spawnSync("flock", ["-n", path, "true"]).status === 0;
      });
      await order();
      engine.done();
    });
    expect(await bench().run(status)).toMatchObject({ code: 0 });
    expect(results).toEqual(["refused another operation on container c2 is running", "exited "]);
    expect(existsSync(path)).toBe(false);
  });

  test("is not run while a process that an earlier plugin of that sandbox left is running", async () => {
    const pidFile = join(bench().dir, "pid");
    const leaving = `sleep 60 >/dev/null 2>&1 </dev/null & echo $! >${pidFile}`;
    bench().plugin("p", `[ "$CNI_COMMAND" = DEL ] || { ${leaving}; }`);
    await bench().order({ type: "p" }, { CNI_CONTAINERID: "c2" });
    const pid = Number(readFileSync(pidFile, "utf8"));
    const results: string[] = [];
    await bench().engine(async (engine) => {
      for (const isLeft of [true, false]) {
        if (!isLeft) process.kill(pid);
        await waitUntil("it has gone, if it was killed", () => isLeft || !isRunning(pid));
        const { outcome, message } = await engine.exec({ type: "p", path: bench().bin, env });
        results.push(`${outcome} ${message}`);
      }
      engine.done();
    });
    expect(await bench().run(status)).toMatchObject({ code: 0 });
    expect(results).toEqual(["refused another operation on container c2 is running", "exited "]);
  });
});

eachBuild("the node lock", (bench) => {
  const run = (command: string) =>
    bench().run({ env: { CNI_COMMAND: command, PLEXUS_LOCK_MS: "200" } });

  test.each([
    ["GC", "-s"],
    ["GC", "-x"],
    ["ADD", "-x"],
    ["DEL", "-x"],
    ["CHECK", "-x"],
  ] as const)("makes %s wait while another process holds it (flock %s)", async (command, how) => {
    await bench().engine((engine) => engine.done());
    const path = bench().state;
    const holder = await hold(path, how);
    const error = cniError(await run(command));
    release(holder);
    expect(error).toMatchObject({ code: 11 });
    expect(error.msg).toBe(
      `another operation on this node is still running: it has held ${path} for 200 ms`,
    );
    expect(await run(command)).toMatchObject({ code: 0 });
    expect(readdirSync(bench().state)).toEqual([]);
  });

  test.each([
    ["ADD", "-s"],
    ["DEL", "-s"],
    ["CHECK", "-s"],
    ["STATUS", "-x"],
  ] as const)("lets %s run while another process holds it (flock %s)", async (command, how) => {
    await bench().engine((engine) => engine.done());
    const holder = await hold(bench().state, how);
    expect(await run(command)).toMatchObject({ code: 0 });
    release(holder);
  });
});
