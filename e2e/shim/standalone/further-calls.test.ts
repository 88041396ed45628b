import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { isRunning, signal, waitForExit } from "../../support/processes.ts";
import { waitUntil } from "../../support/wait.ts";
import { type Bench, cniError, eachBuild, type RunOptions } from "../lab/harness.ts";
import { earlier } from "../lab/plan-file.ts";
import { standalone, standaloneExecutable } from "../lab/standalone.ts";

/**
 * Answers `first PID` to its own shim, and then `further PID`. Unless a file tells it to hang, or to
 * end in the middle of a call.
 */
const staying = (bench: Bench): string => `
  const has = (name) => fs.existsSync(${JSON.stringify(bench.dir)} + "/" + name);
  const answer = (shim, text) => shim.on("error", () => {}).once("data", () => {
    if (has("hang")) return;
    if (has("busy")) {
      const alive = setInterval(() => shim.write(encodeFrame(17, [])), 1000);
      fs.rmSync(${JSON.stringify(bench.dir)} + "/busy");
      return setTimeout(() => {
        clearInterval(alive);
        shim.end(encodeFrame(6, [0, text + " " + process.pid, ""]));
      }, 4500);
    }
    if (!has("die")) return shim.end(encodeFrame(6, [0, text + " " + process.pid, ""]));
    shim.write(encodeFrame(2, ["0", "p", process.env.CNI_PATH, 5000, "", "CNI_COMMAND=ADD"]));
    shim.once("data", () => process.kill(process.pid, 9));
  });
  answer(socket, "first");
  socket.on("close", () => [0, 1, 2].map((fd) => fs.closeSync(fd) ?? fs.openSync("/dev/null", "r+")));
  if (process.env.PLEXUS_FURTHER_CALLS)
    net.createServer((shim) => answer(shim, "further")).listen({ fd: 4 });
  setTimeout(() => process.exit(), 6000);`;

eachBuild("a plexus-standalone that stays after its call", (bench) => {
  const dir = (): string => join(bench().dir, "run-standalone");
  const install = (): Record<string, string> => ({
    PLEXUS_SOCKET: join(bench().dir, "run/plexus.sock"),
    PLEXUS_STANDALONE: standalone(bench(), staying(bench())),
  });
  const say = async (options: RunOptions): Promise<[word: string, pid: number]> => {
    const { code, stdout } = await bench().run(options);
    expect(code).toBe(0);
    const [word = "", pid] = stdout.split(" ");
    return [word, Number(pid)];
  };

  test("serves the next calls of its runtime, by a socket that only root can reach [S-121]", async () => {
    const env = install();
    const [word, pid] = await say({ env });
    expect(word).toBe("first");
    expect(await say({ env })).toEqual(["further", pid]);
    expect(await say({ env: { ...env, CNI_COMMAND: "DEL" } })).toEqual(["further", pid]);
    expect(statSync(dir()).mode & 0o777).toBe(0o700);
    expect(readdirSync(dir())).toEqual([expect.stringMatching(`^\\d+-${process.pid}-\\d+-\\d+$`)]);
  });

  test("is started once for calls that come at once", async () => {
    const env = install();
    const calls = Array.from({ length: 12 }, (_, n) =>
      say({ env: { ...env, CNI_CONTAINERID: `c${n}` } }),
    );
    const answers = await Promise.all(calls);
    expect(answers.map(([word]) => word).toSorted()[0]).toBe("first");
    expect(answers.filter(([word]) => word === "further")).toHaveLength(11);
    expect(new Set(answers.map(([, pid]) => pid)).size).toBe(1);
  });

  test.each<[string, (options: RunOptions) => RunOptions]>([
    ["another variable", (call) => ({ env: { ...call.env, PLEXUS_CONFIG: "/c" } })],
    ["another network namespace", (call) => ({ ...call, node: bench().netns() })],
    ["another mount namespace", (call) => ({ ...call, starter: ["unshare", "--mount"] })],
    ["another working directory", (call) => ({ ...call, starter: ["env", "-C", "/"] })],
    ["another limit", (call) => ({ ...call, starter: ["prlimit", "--nofile=900"] })],
    ["another runtime", (call) => ({ ...call, starter: ["sh", "-c", '"$@"; exit $?', "sh"] })],
  ])("does not serve a call with %s", async (_, changed) => {
    const call = { env: install() };
    const [, pid] = await say(call);
    const [word, other] = await say(changed(call));
    expect(word).toBe("first");
    expect(other).not.toBe(pid);
    expect(await say(call)).toEqual(["further", pid]);
  });

  test("does not serve a call once its executable is replaced", async () => {
    const env = install();
    await say({ env });
    const path = env.PLEXUS_STANDALONE as string;
    copyFileSync(path, `${path}.new`);
    renameSync(`${path}.new`, path);
    expect(await say({ env })).toEqual(["first", expect.any(Number)]);
    rmSync(path);
    expect(cniError(await bench().run({ env })).reason).toBe("DaemonUnavailable");
  });

  test("does not serve a call that plexusd serves", async () => {
    const env = install();
    await say({ env });
    mkdirSync(join(bench().dir, "run"));
    await bench().engine((engine) => engine.done(0, "plexusd 1"), env.PLEXUS_SOCKET);
    expect(await say({ env })).toEqual(["plexusd", 1]);
  });

  test("keeps nothing that the runtime has left open, and no terminal", async () => {
    const env = install();
    const open = join(bench().dir, "open");
    const starter = ["sh", "-c", 'exec 7>>"$0"; exec "$@"', open];
    const [, pid] = await say({ env, starter });
    const files = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    expect(files).not.toContain(open);
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ");
    expect(Number(fields?.[3])).toBe(pid);
  });

  test("is replaced at once if it was killed", async () => {
    const env = install();
    const [, pid] = await say({ env });
    signal(pid, "SIGKILL");
    await waitForExit(pid);
    const [word, next] = await say({ env });
    expect(word).toBe("first");
    expect(await say({ env })).toEqual(["further", next]);
  });

  test("is replaced by one process if it hangs, and only the calls that wait for it are late", async () => {
    const env = { ...install(), PLEXUS_SILENCE_MS: "3000" };
    const [, pid] = await say({ env });
    signal(pid, "SIGSTOP");
    const waiting = Array.from({ length: 8 }, () => bench().run({ env }));
    const late = await Promise.all(waiting);
    for (const { code, ms } of late) {
      expect(code).toBe(0);
      expect(ms).toBeGreaterThan(3000);
    }
    const successors = new Set(late.map(({ stdout }) => stdout.split(" ")[1]));
    expect(successors.size).toBe(1);
    const next = await bench().run({ env });
    expect(next.stdout).toBe(`further ${[...successors][0]}`);
    expect(next.ms).toBeLessThan(3000);
    signal(pid, "SIGKILL");
  });

  test("is ended by the first shim that hears nothing of it for five seconds", async () => {
    const env = { ...install(), ...standaloneExecutable(bench(), staying(bench())) };
    const [, pid] = await say({ env });
    signal(pid, "SIGSTOP");
    const late = await bench().run({ env });
    expect(late.stdout).toMatch(/^first /);
    expect(late.ms).toBeGreaterThan(4900);
    expect(late.ms).toBeLessThan(15_000);
    await waitForExit(pid);
  });

  test("is not confused with another process that has the number of the shim that made the socket", async () => {
    const env = { ...install(), PLEXUS_SILENCE_MS: "1500" };
    const [, pid] = await say({ env });
    const [name = ""] = readdirSync(dir());
    signal(pid, "SIGKILL");
    rmSync(join(dir(), name));
    const listen = `require("net").createServer(() => console.log("call")).listen(${JSON.stringify(join(dir(), name))})`;
    const stranger = spawn(process.execPath, ["-e", listen]);
    onTestFinished(() => void stranger.kill("SIGKILL"));
    await waitUntil("it listens", () => existsSync(join(dir(), name)));
    const called = once(stranger.stdout, "data");
    expect(await say({ env })).toEqual(["first", expect.any(Number)]);
    await called;
    expect(stranger.signalCode).toBeNull();
    expect(isRunning(stranger.pid!)).toBe(true);
  });

  test("is not replaced while it says that it lives", async () => {
    const env = { ...install(), PLEXUS_SILENCE_MS: "3000" };
    const [, pid] = await say({ env });
    writeFileSync(join(bench().dir, "busy"), "");
    expect(await say({ env })).toEqual(["further", pid]);
  });

  test("that hangs in the call of the shim that starts it is killed", async () => {
    const env = { ...install(), PLEXUS_SILENCE_MS: "1500" };
    appendFileSync(join(bench().dir, "hang"), "");
    earlier(bench());
    expect(await bench().run({ env: { ...env, CNI_COMMAND: "DEL" } })).toMatchObject({ code: 0 });
    rmSync(join(bench().dir, "hang"));
    expect(await say({ env })).toEqual(["first", expect.any(Number)]);
  });

  test("that ends in the middle of a further call has that rolled back", async () => {
    bench().plugin("p", "echo '{}'");
    const env = install();
    const [, pid] = await say({ env });
    writeFileSync(join(bench().dir, "die"), "");
    expect(cniError(await bench().run({ env }))).toMatchObject({
      code: 11,
      msg: expect.stringContaining("closed the connection during the call"),
    });
    await waitForExit(pid);
  });

  test.each([
    ["the path of its socket is too long", (env: object) => ({ ...env, PLEXUS_SOCKET: longPath })],
    ["there is no directory for it", (env: object) => ({ ...env, PLEXUS_SOCKET: "/proc/no/s" })],
    ["others can write there", (env: object) => ({ ...env, PLEXUS_SOCKET: openPath() })],
    ["it would be in /", (env: object) => ({ ...env, PLEXUS_SOCKET: "/plexus-test.sock" })],
  ])("serves one call if %s", async (_, changed) => {
    const env = changed(install()) as Record<string, string>;
    const [word, pid] = await say({ env });
    expect(word).toBe("first");
    const [again, next] = await say({ env });
    expect(again).toBe("first");
    expect(next).not.toBe(pid);
    expect(existsSync("/proc/no-standalone")).toBe(false);
  });
});

/** In a directory that others can write. */
function openPath(): string {
  const dir = mkdtempSync(join(tmpdir(), "plexus-open-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, "run-standalone"));
  chmodSync(join(dir, "run-standalone"), 0o777);
  return join(dir, "run/plexus.sock");
}

const longPath = `/tmp/${"s".repeat(90)}/plexus.sock`;
