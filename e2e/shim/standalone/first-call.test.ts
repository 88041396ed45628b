import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { bootClockMs } from "#lib/boot-clock.ts";
import { waitForExit } from "../../support/processes.ts";
import { waitUntil } from "../../support/wait.ts";
import { cniError, eachBuild, noSense } from "../lab/harness.ts";
import { earlier } from "../lab/plan-file.ts";
import { answering, declining, standalone } from "../lab/standalone.ts";

function makeDirectory(path: string): void {
  rmSync(path);
  mkdirSync(path, 0o755);
}

eachBuild("plexus-standalone", (bench) => {
  const ordering = `
    socket.once("data", () => {
      const fds = fs.readdirSync("/proc/self/fd").map((f) => { try { return fs.readlinkSync("/proc/self/fd/" + f) } catch { return "" } });
      const locks = fds.filter((f) => f.includes(".lock")).length;
      console.log("a stray line");
      socket.write(encodeFrame(2, ["g", "p", process.env.CNI_PATH, 5000, ""]));
      socket.once("data", (d) => socket.end(encodeFrame(6, [0, "via standalone " + d.includes("ran") + " " + locks, ""])));
    });`;

  test("without plexusd, serves the call on fd 3, and gets neither the call's stdout nor its lock", async () => {
    bench().plugin("p", "echo ran");
    const env = { PLEXUS_STANDALONE: standalone(bench(), ordering) };
    const answer = await bench().run({ env });
    expect(answer).toMatchObject({ code: 0, stdout: "via standalone true 0" });
  });

  test("gets private variables, and delegates the runtime's only", async () => {
    bench().plugin("p", "env");
    const names = ["BUN_JSC_thresholdForJITAfterWarmUp", "PLEXUS_CLOCK_US", "PLEXUS_FURTHER_CALLS"];
    const script = `
      const own = ${JSON.stringify(names)}.filter((name) => name in process.env).length;
      socket.once("data", () => {
        socket.write(encodeFrame(2, ["g", "p", process.env.CNI_PATH, 5000, ""]));
        socket.once("data", (d) => socket.end(encodeFrame(6, [0, own + " " + d, ""])));
      });`;
    const env = { PLEXUS_STANDALONE: standalone(bench(), script) };
    const { stdout } = await bench().run({ env });
    expect(stdout).toMatch(/^3 /);
    expect(stdout).toContain("PLEXUS_STANDALONE=");
    for (const name of names) expect(stdout).not.toContain(name);
  });

  test("knows when the call began, and may work after its answer", async () => {
    const done = join(bench().dir, "done");
    const script = `const readings = process.env.PLEXUS_CLOCK_US; ${answering}
      setTimeout(() => fs.writeFileSync(${JSON.stringify(done)}, readings), 500);`;
    const before = [bootClockMs(), Date.now()];
    const env = { PLEXUS_STANDALONE: standalone(bench(), script) };
    expect(await bench().run({ env })).toMatchObject({ code: 0, stdout: "standalone" });
    await waitUntil("it has ended its work", () => existsSync(done));
    const readings = readFileSync(done, "utf8").split("/");
    const now = [bootClockMs(), Date.now()];
    for (const [n, us] of readings.entries()) {
      expect(Number(us) / 1000).toBeGreaterThanOrEqual(before[n]!);
      expect(Number(us) / 1000).toBeLessThanOrEqual(now[n]!);
    }
    expect(readings).toHaveLength(2);
  });

  test("of another release fails the call with a clear error", async () => {
    const env = { PLEXUS_STANDALONE: standalone(bench(), "socket.write(encodeFrame(42, []));") };
    expect(cniError(await bench().run({ env }))).toMatchObject({ code: 999, msg: noSense });
  });

  test("fails the call if there may be no further process", async () => {
    const path = standalone(bench(), answering);
    const env = { PLEXUS_STANDALONE: path, ASAN_OPTIONS: "detect_leaks=0" };
    const starter = [bench().compile("without"), "clone"];
    expect(cniError(await bench().run({ env, starter }))).toMatchObject({
      code: 5,
      msg: `cannot start ${path}: Resource temporarily unavailable`,
    });
  });

  test("serves a call that began before it was installed", async () => {
    const path = standalone(bench(), answering);
    renameSync(path, `${path}.new`);
    const call = bench().start({ env: { PLEXUS_STANDALONE: path, PLEXUS_WAIT_MS: "10000" } });
    setTimeout(() => renameSync(`${path}.new`, path), 200);
    expect(await call.ended).toMatchObject({ code: 0 });
  });

  test("is not used if plexusd answers", async () => {
    await bench().engine((engine) => engine.done(0, "daemon"));
    const env = { PLEXUS_STANDALONE: standalone(bench(), answering) };
    expect((await bench().run({ env })).stdout).toBe("daemon");
  });

  test.each([
    ["writable by others", (path: string) => chmodSync(path, 0o777)],
    ["owned by another user", (path: string) => chownSync(path, 65534, 65534)],
    ["not executable", (path: string) => chmodSync(path, 0o644)],
    ["a directory", makeDirectory],
  ])("is ignored if it is %s [S-503]", async (_, spoil) => {
    const path = standalone(bench(), answering);
    spoil(path);
    const error = cniError(await bench().run({ env: { PLEXUS_STANDALONE: path } }));
    expect(error).toMatchObject({ code: 11, msg: expect.stringMatching(/^cannot reach plexusd/) });
  });

  test("is named, with the reason, if it cannot be executed", async () => {
    const path = standalone(bench(), answering);
    writeFileSync(path, "#!/no/such/node\n");
    const error = cniError(await bench().run({ env: { PLEXUS_STANDALONE: path } }));
    const msg = `cannot execute ${path}: the interpreter of its #! line, or its ELF loader, does not exist`;
    expect(error.msg).toContain(msg);
  });

  test.each<[string, string, RegExp]>([
    ["before", "process.exit(1)", /plexus-standalone ended early, or did not/],
    [
      "after",
      ordering.replace("socket.end(encodeFrame", "process.exit(1, encodeFrame"),
      /; rolled back everything that was attached$/,
    ],
  ])("if it dies %s its first order, ADD reports it and DEL replays the plan", async (...row) => {
    const [when, script, message] = row;
    const plan = earlier(bench());
    const env = { PLEXUS_STANDALONE: standalone(bench(), script) };
    const error = cniError(await bench().run({ env }));
    expect(error.code).toBe(11);
    expect(error.msg).toMatch(message);
    expect(plan.names).toEqual(when === "before" ? [] : ["a"]);
    plan.write([{}]);
    expect(await plan.del(env)).toMatchObject({ code: 0 });
    expect(plan.names.at(-1)).toBe("a");
  });

  test.each([
    ["declines it", declining],
    ["cannot serve it", "process.exit(1)"],
  ])("leaves an ADD to a plexusd that restarts meanwhile if it %s", async (_, script) => {
    const env = { PLEXUS_STANDALONE: standalone(bench(), script), PLEXUS_WAIT_MS: "10000" };
    const call = bench().start({ env });
    setTimeout(() => void bench().engine((engine) => engine.done(0, "plexusd")), 1000);
    expect(await call.ended).toMatchObject({ code: 0, stdout: "plexusd" });
  });

  test("that declines an ADD has its error printed when the wait is over; a DEL replays the plan", async () => {
    const env = { PLEXUS_STANDALONE: standalone(bench(), declining), PLEXUS_WAIT_MS: "700" };
    expect(await bench().run({ env })).toMatchObject({ code: 1, stdout: '{"code":11}' });
    const plan = earlier(bench());
    expect(await plan.del(env)).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });

  test.each([
    ["hangs", "{}"],
    ["hangs before it has read the call", `{"padding":"${"x".repeat(4 << 20)}"}`],
  ])("is killed if it %s, and DEL replays the plan", async (_, stdin) => {
    const plan = earlier(bench());
    const pid = join(bench().dir, "pid");
    const script = `fs.writeFileSync(${JSON.stringify(pid)}, String(process.pid)); setInterval(() => 0, 1000);`;
    const PLEXUS_STANDALONE = standalone(bench(), script);
    const env = { CNI_COMMAND: "DEL", PLEXUS_STANDALONE, PLEXUS_SILENCE_MS: "3000" };
    expect(await bench().run({ env, stdin })).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
    await waitForExit(Number(readFileSync(pid, "utf8")));
  });

  test("does not hold up the call if it cannot end", async () => {
    const plan = earlier(bench());
    const pid = join(bench().dir, "pid");
    const script = `fs.writeFileSync(${JSON.stringify(pid)}, String(process.pid)); setInterval(() => 0, 1000);`;
    const PLEXUS_STANDALONE = standalone(bench(), script);
    const env = { CNI_COMMAND: "DEL", PLEXUS_STANDALONE, PLEXUS_SILENCE_MS: "3000" };
    const call = bench().start({ env });
    await waitUntil("it runs", () => existsSync(pid) && readFileSync(pid, "utf8") !== "");
    const holder = spawn(bench().compile("hold"), [readFileSync(pid, "utf8")]);
    onTestFinished(() => void holder.kill("SIGKILL"));
    const { code, ms } = await call.ended;
    expect(code).toBe(0);
    expect(ms).toBeGreaterThan(3900);
    expect(ms).toBeLessThan(10_000);
    expect(plan.names).toEqual(["a"]);
  });
});
