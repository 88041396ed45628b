import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { isRunning, waitForExit } from "../support/processes.ts";
import { waitUntil } from "../support/wait.ts";
import { type Bench, cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** A container runtime that reads the shim's stdout from a pipe, as containerd and CRI-O do. */
class Runtime {
  readonly #dir: string;
  readonly #name: string;

  constructor(bench: Bench, name: string, env: Record<string, string>) {
    this.#dir = bench.dir;
    this.#name = name;
    writeFileSync(join(bench.dir, "conf"), '{"cniVersion":"1.0.0","name":"n","type":"plexus"}');
    const script = `{ "$0" <"$1/conf" & echo $! >"$1/$2.shim"; wait $!; echo $? >"$1/$2.status"; } |
      sh -c 'echo $$ >"$0"; exec cat >/dev/null' "$1/$2.runtime"`;
    spawn("sh", ["-c", script, bench.shim, bench.dir, name], {
      env: bench.env(env),
      stdio: "ignore",
    });
  }

  /** Kills the runtime while its shim continues. */
  async kill(): Promise<void> {
    process.kill(await this.#number("runtime"), "SIGKILL");
  }

  async stopShim(): Promise<void> {
    process.kill(await this.#number("shim"), "SIGSTOP");
  }

  /** The exit status of the shim, as shells report it: 128 plus the signal's number if a signal killed it. */
  status(): Promise<number> {
    return this.#number("status");
  }

  #number(part: string): Promise<number> {
    const path = join(this.#dir, `${this.#name}.${part}`);
    return waitUntil(`there is ${path}`, () => readNumber(path));
  }
}

function readNumber(path: string): number | undefined {
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  return text.endsWith("\n") ? Number(text) : undefined;
}

const [terminated, killed] = [143, 137];

/** Shares the flock of a directory for a minute, and returns the process group that does. */
async function hold(dir: string): Promise<number> {
  const { pid = 0 } = spawn("flock", ["-s", dir, "sleep", "60"], { detached: true });
  await waitUntil("it is held", () => spawnSync("flock", ["-n", dir, "true"]).status !== 0);
  return pid;
}

eachBuild("if a call's runtime is killed", (bench) => {
  /** Installs a plugin that hangs. The returned function waits until it runs, and returns its process. */
  const hangingPlugin = (): (() => Promise<number>) => {
    const begun = join(bench().dir, "begun");
    const ipam = bench().plugin("ipam", `echo $$ >${begun}; exec sleep 60`);
    bench().plugin("p", `${ipam}; echo`);
    return () => waitUntil("the plugin has begun", () => readNumber(begun));
  };

  /** An engine that orders the plugin only in the first call. */
  const engine = async (command: string): Promise<void> => {
    let calls = 0;
    await bench().engine(async (conversation) => {
      const env = [`CNI_COMMAND=${command}`];
      if (calls++ === 0) await conversation.exec({ type: "p", path: bench().bin, env });
      conversation.done();
    });
  };

  test.each(["ADD", "CHECK", "GC", "STATUS"])(
    "%s is cancelled together with its plugin, and does not delay the next DEL",
    async (CNI_COMMAND) => {
      const begun = hangingPlugin();
      await engine(CNI_COMMAND);
      const runtime = new Runtime(bench(), "first", { CNI_COMMAND });
      const pid = await begun();
      const killed = performance.now();
      await runtime.kill();
      expect(await runtime.status()).toBe(terminated);
      await waitForExit(pid);
      expect(performance.now() - killed).toBeLessThan(10_000);
      expect(await bench().run({ env: { CNI_COMMAND: "DEL" } })).toMatchObject({ code: 0 });
      expect(readdirSync(bench().state)).toEqual([]);
      bench().forgiveEngine();
    },
  );

  test("ADD ends while it waits for an order, for plexusd or for the sandbox's lock", async () => {
    const server = await bench().engine(async (conversation) => conversation.ended());
    const [asking, waiting] = ["asking", "waiting"].map(
      (name) => new Runtime(bench(), name, { CNI_COMMAND: "ADD" }),
    ) as [Runtime, Runtime];
    await waitUntil("one is served", () => readdirSync(bench().state).includes("c1.lock"));
    for (const each of [asking, waiting]) await each.kill();
    for (const each of [asking, waiting]) expect(await each.status()).toBe(terminated);
    await new Promise((closed) => server.close(closed));
    const env = { CNI_COMMAND: "ADD", PLEXUS_WAIT_MS: "60000" };
    const alone = new Runtime(bench(), "alone", env);
    await alone.kill();
    expect(await alone.status()).toBe(terminated);
  });

  test("an operation ends while it waits for processes that earlier plugins left", async () => {
    bench().plugin("p", "sleep 60 >/dev/null 2>&1 </dev/null &");
    await bench().order({ type: "p" });
    const path = join(bench().state, "c1.lock");
    const env = { CNI_COMMAND: "CHECK", PLEXUS_STRAGGLER_MS: "60000" };
    const waiting = new Runtime(bench(), "waiting", env);
    await waitUntil("it waits", () => spawnSync("flock", ["-n", path, "true"]).status !== 0);
    await waiting.kill();
    expect(await waiting.status()).toBe(terminated);
  });

  test("an operation ends while it waits for a GC's turn", async () => {
    const { state } = bench();
    const held = await hold(state);
    const { ino } = statSync(state);
    const isMarked = () =>
      new RegExp(`OFDLCK .*:${ino} `).test(readFileSync("/proc/locks", "utf8"));
    const gc = new Runtime(bench(), "gc", { CNI_COMMAND: "GC", PLEXUS_TURN_MS: "60000" });
    await waitUntil("the GC waits", isMarked);
    const env = { CNI_COMMAND: "ADD", PLEXUS_TURN_MS: "60000" };
    const waiting = new Runtime(bench(), "waiting", env);
    await waiting.kill();
    expect(await waiting.status()).toBe(terminated);
    await gc.kill();
    expect(await gc.status()).toBe(terminated);
    process.kill(-held, "SIGKILL");
  });

  test("a GC ends while it waits for the Docker driver", async () => {
    const { state } = bench();
    const driver = join(state, "docker/records");
    mkdirSync(driver, { recursive: true });
    const held = await hold(driver);
    const env = { CNI_COMMAND: "GC", PLEXUS_TURN_MS: "60000" };
    const gc = new Runtime(bench(), "gc", env);
    await waitUntil("it waits", () => spawnSync("flock", ["-sn", state, "true"]).status !== 0);
    await gc.kill();
    expect(await gc.status()).toBe(terminated);
    process.kill(-held, "SIGKILL");
  });

  test.each(["docker", "docker/records"])("a GC does not follow a link %s", async (link) => {
    const { state, dir } = bench();
    const elsewhere = join(dir, "elsewhere");
    mkdirSync(join(elsewhere, "records"), { recursive: true });
    const target = link === "docker" ? elsewhere : join(elsewhere, "records");
    mkdirSync(dirname(join(state, link)), { recursive: true });
    symlinkSync(target, join(state, link));
    const held = await hold(join(elsewhere, "records"));
    const env = { CNI_COMMAND: "GC", PLEXUS_TURN_MS: "200" };
    expect((await bench().run({ env })).stdout).toMatch(/cannot reach plexusd/);
    process.kill(-held, "SIGKILL");
  });

  test("DEL continues until everything is detached", async () => {
    const [begun, go, done] = ["begun", "go", "done"].map((name) => join(bench().dir, name));
    bench().plugin("p", `echo >${begun}; until [ -e ${go} ]; do sleep 0.05; done; echo 1 >${done}`);
    new PlanFile(bench()).write([{ type: "p" }], { attempted: 1 });
    const runtime = new Runtime(bench(), "first", { CNI_COMMAND: "DEL" });
    await waitUntil("the plugin has begun", () => existsSync(begun as string));
    await runtime.kill();
    writeFileSync(go as string, "");
    expect(await runtime.status()).toBe(0);
    expect(existsSync(done as string)).toBe(true);
    expect(readdirSync(bench().state)).toEqual(["c1@eth0.detached"]);
  });

  const patience = { CNI_COMMAND: "DEL", PLEXUS_STRAGGLER_MS: "300" };

  test.each([
    ["a DEL that hangs", "DEL", false],
    ["an ADD whose shim is stopped", "ADD", true],
  ])("%s is killed by the next operation", async (_, CNI_COMMAND, isStopped) => {
    const begun = hangingPlugin();
    await engine(CNI_COMMAND);
    const runtime = new Runtime(bench(), "first", { CNI_COMMAND });
    const pid = await begun();
    if (isStopped) await runtime.stopShim();
    await runtime.kill();
    expect(await bench().run({ env: patience })).toMatchObject({ code: 0 });
    expect(await runtime.status()).toBe(killed);
    await waitForExit(pid);
    bench().forgiveEngine();
  });

  test.each([
    ["otherwise", false, "300"],
    ["for some seconds", true, "60000"],
  ])("%s, the next operation waits for a DEL that hangs and does not kill it", async (...row) => {
    const [, isKilled, PLEXUS_STRAGGLER_MS] = row;
    const begun = hangingPlugin();
    await engine("DEL");
    const runtime = new Runtime(bench(), "first", { CNI_COMMAND: "DEL" });
    const pid = await begun();
    if (isKilled) await runtime.kill();
    const waiting = { PLEXUS_STRAGGLER_MS, PLEXUS_LOCK_MS: "1000" };
    const answer = await bench().run({ env: { ...patience, ...waiting } });
    expect(cniError(answer).msg).toMatch(/^another operation on this sandbox is still running/);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
    expect(await runtime.status()).toBe(0);
  });
});
