import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRunning, waitForExit } from "../support/processes.ts";
import { waitUntil } from "../support/wait.ts";
import { type ExecResult, eachBuild } from "./lab/harness.ts";

const large = "0123456789abcdef".repeat(1 << 16);
const fourMiB = "\0".repeat(4 << 20);
const cutStderr = `${"error\n".repeat(11_000).slice(0, 65_536)}\n… (stderr truncated at 64 KiB)\n`;

eachBuild("a delegate", (bench) => {
  test("gets the order's stdin, the call's variables changed by the order's, and its path as argv[0]", async () => {
    const path = bench().plugin(
      "p",
      'cat; echo "$0 $# $CNI_COMMAND $CNI_IFNAME $CNI_CONTAINERID $CNI_ARGS $EXTRA"',
    );
    const env = ["CNI_COMMAND=DEL", "CNI_IFNAME=net1", "CNI_ARGS=A=1;B=2"];
    const result = await bench().order({ type: "p", stdin: "conf ", env }, { EXTRA: "kept" });
    expect(result).toMatchObject({ outcome: "exited", code: 0, stderr: "", message: "" });
    expect(result.stdout).toBe(`conf ${path} 0 DEL net1 c1 A=1;B=2 kept\n`);
    expect(result.elapsedUs).toBeGreaterThan(100);
  });

  test("gets each variable once, with the value from the order", async () => {
    bench().plugin("p", "tr '\\0' '\\n' </proc/$$/environ | grep -E '^(CNI_IFNAME|CNI_ARGS)='");
    const env = ["CNI_IFNAME=net1", "CNI_ARGS="];
    const result = await bench().order({ type: "p", env }, { CNI_ARGS: "A=1" });
    expect(result.stdout).toBe("CNI_ARGS=\nCNI_IFNAME=net1\n");
  });

  test.each<[string, string, Partial<ExecResult>]>([
    [
      "has its exit status, stdout and stderr returned",
      "cat >/dev/null; printf out; printf err >&2; exit 3",
      { outcome: "exited", code: 3, stdout: "out", stderr: "err" },
    ],
    [
      "that a signal killed is reported with that signal",
      "kill -SEGV $$",
      { outcome: "signaled", code: 11, message: "killed by signal 11" },
    ],
    ["can read a megabyte from stdin and return it", "exec cat", { stdout: large }],
    [
      "may leave its stdin unread",
      "exec <&-; sleep 0.05; echo fine",
      { outcome: "exited", code: 0, stdout: "fine\n" },
    ],
    [
      "leads a new process group",
      `read -r pid name state ppid pgrp rest </proc/$$/stat; [ "$pid" = "$pgrp" ] && echo leader`,
      { stdout: "leader\n" },
    ],
    [
      "that closes its outputs early is still waited for",
      "exec >&- 2>&-; sleep 0.3; exit 7",
      { outcome: "exited", code: 7 },
    ],
    [
      "may have what it started print for it",
      "exec 2>&-; { sleep 0.3; echo late; } &",
      { outcome: "exited", code: 0, stdout: "late\n" },
    ],
  ])("%s", async (_, script, expected) => {
    bench().plugin("p", script);
    const result = await bench().order({ type: "p", stdin: large });
    expect(result).toMatchObject(expected);
  });

  test.each<[string, string, Partial<ExecResult>]>([
    [
      "that prints more than 4 MiB is killed",
      "head -c 5000000 /dev/zero; exec sleep 60",
      { outcome: "overflow", code: 0, stdout: fourMiB, message: "stdout exceeded 4 MiB; killed" },
    ],
    ["may print 4 MiB", "head -c 4194304 /dev/zero", { outcome: "exited", stdout: fourMiB }],
    [
      "that writes 1 MB to stderr is not killed; its stderr is truncated",
      "yes error | head -c 1000000 >&2; echo done",
      { outcome: "exited", code: 0, stdout: "done\n", stderr: cutStderr },
    ],
    [
      "may write 64 KiB to stderr",
      "head -c 65536 /dev/zero >&2",
      { outcome: "exited", stdout: "", stderr: "\0".repeat(65_536) },
    ],
  ])("%s [S-601]", async (_, script, { stdout, ...expected }) => {
    bench().plugin("p", script);
    const result = await bench().order({ type: "p" });
    expect(result).toMatchObject(expected);
    expect(result.stdout === stdout).toBe(true);
  });

  test("that writes without end from another session delays the call by two seconds [S-601]", async () => {
    bench().plugin("p", "setsid yes & exec sleep 60");
    const result = await bench().order({ type: "p" });
    expect(result).toMatchObject({ outcome: "overflow" });
    expect(result.elapsedUs).toBeLessThan(4_000_000);
  });

  test("does not fill the shim's memory through stderr [S-601]", async () => {
    bench().plugin("p", "head -c 300000000 /dev/zero >&2; grep VmHWM /proc/$PPID/status");
    const { stdout } = await bench().order({ type: "p" });
    expect(Number(/VmHWM:\s+(\d+) kB/.exec(stdout)?.[1])).toBeLessThan(100_000);
  });

  test("inherits the sandbox's lock, and no other descriptor that the shim opened [S-605]", async () => {
    const fds = execFileSync(bench().compile("open-fds"), { stdio: "pipe" }).toString();
    expect(fds).not.toMatch(/\b3\b/);
    const result = await bench().order({ type: "open-fds" });
    expect(result).toMatchObject({ outcome: "exited", stdout: fds.replace("2 ", "2 3 ") });
    bench().plugin("p", "readlink /proc/$$/fd/3");
    expect((await bench().order({ type: "p" })).stdout).toBe(`${bench().state}/c1.lock\n`);
  });

  test("has default signal handling, although the shim ignores SIGPIPE", async () => {
    bench().plugin("p", "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '[:space:]'");
    const result = await bench().order({ type: "p" });
    const [blocked, ignored] = result.stdout
      .match(/[0-9a-f]{16}/g)!
      .map((mask) => BigInt(`0x${mask}`));
    const reserved = 0x3_8000_0000n; // 32 to 34 are libc's own and cannot be set through it
    expect([blocked, ignored! & ~reserved]).toEqual([0n, 0n]);
  });

  test("has its pipes and the lock, although the runtime has closed stdin and stderr", async () => {
    bench().plugin("p", "cat; readlink /proc/$$/fd/3; echo error >&2");
    const starter = ["sh", "-c", 'exec "$@" <&- 2>&-', "runtime"];
    const result = await bench().order({ type: "p", stdin: "conf " }, {}, starter);
    const stdout = `conf ${bench().state}/c1.lock\n`;
    expect(result).toMatchObject({ outcome: "exited", stdout, stderr: "error\n" });
  });

  test("is waited for, although the runtime ignores SIGCHLD", async () => {
    bench().plugin("p", "exit 3");
    const starter = ["bash", "-c", `trap '' CHLD; exec "$@"`, "runtime"];
    const result = await bench().order({ type: "p" }, {}, starter);
    expect(result).toMatchObject({ outcome: "exited", code: 3 });
  });

  test("that exceeds its timeout is killed with its children [S-600]", async () => {
    const pids = join(bench().dir, "pids");
    bench().plugin("p", `sleep 300 & echo $$ $! >${pids}; sleep 0.1; printf partial; wait`);
    const result = await bench().order({ type: "p", timeoutMs: 1000, stdin: large });
    expect(result).toMatchObject({ outcome: "timeout", code: 0, stdout: "partial" });
    expect(result.message).toBe("still running after 1000 ms; killed");
    expect(result.elapsedUs).toBeGreaterThanOrEqual(1_000_000);
    expect(result.elapsedUs).toBeLessThan(2_900_000);
    const [delegate, child] = readFileSync(pids, "utf8").trim().split(" ").map(Number);
    await waitForExit(delegate!);
    await waitForExit(child!);
  });

  test("that a signal killed does not leave its children running [S-600]", async () => {
    const pid = join(bench().dir, "pid");
    bench().plugin("p", `sleep 300 >/dev/null 2>&1 & echo $! >${pid}; kill -KILL $$`);
    const result = await bench().order({ type: "p" });
    expect(result).toMatchObject({ outcome: "signaled", code: 9 });
    await waitForExit(Number(read(pid)));
  });

  test.each(["SIGTERM", "SIGKILL"] as const)(
    "is killed if its shim is ended by %s [S-600]",
    async (signal) => {
      const pids = join(bench().dir, "pids");
      bench().plugin("p", `sleep 300 & echo $$ $! >${pids}; wait`);
      await bench().engine(
        async (engine) => void (await engine.exec({ type: "p", path: bench().bin })),
      );
      const call = bench().start();
      await waitUntil("both processes have begun", () => read(pids) !== "");
      call.child.kill(signal);
      expect(await call.ended).toMatchObject({ code: null, signal });
      const [delegate, child] = read(pids).trim().split(" ").map(Number);
      await waitForExit(delegate!);
      // A shim that is killed cannot end what its delegate has started.
      if (signal === "SIGTERM") await waitForExit(child!);
      else process.kill(child!);
      bench().forgiveEngine();
    },
  );

  test("whose background process keeps its pipes open delays the call by two seconds; the process lives", async () => {
    const pid = join(bench().dir, "pid");
    bench().plugin("p", `sleep 30 & echo $! >${pid}; echo ready`);
    const result = await bench().order({ type: "p" });
    expect(result).toMatchObject({ outcome: "exited", code: 0, stdout: "ready\n" });
    expect(result.elapsedUs).toBeGreaterThan(1_900_000);
    expect(result.elapsedUs).toBeLessThan(3_500_000);
    const daemon = Number(readFileSync(pid, "utf8"));
    expect(isRunning(daemon)).toBe(true);
    process.kill(daemon);
  });

  test("runs to its end if the engine closes the connection; only then does the call fail", async () => {
    const done = join(bench().dir, "done");
    bench().plugin("p", `sleep 0.5; echo finished >${done}`);
    const server = await bench().engine((engine) => {
      engine.exec({ type: "p", path: bench().bin }).catch(() => undefined);
      setTimeout(() => {
        server.close();
        engine.socket.destroy();
      }, 100);
    });
    const answer = await bench().run({ env: { CNI_COMMAND: "CHECK" } });
    expect(JSON.parse(answer.stdout)).toMatchObject({
      code: 11,
      msg: "plexusd closed the connection during the call",
    });
    expect(read(done)).toBe("finished\n");
  });

  test("can be executed many times in one call", async () => {
    bench().plugin("p", "echo $CNI_IFNAME");
    const seen: string[] = [];
    await bench().engine(async (engine) => {
      for (let i = 0; i < 20; i++) {
        const order = { type: "p", path: bench().bin, env: [`CNI_IFNAME=net${i}`] };
        seen.push((await engine.exec(order)).stdout.trim());
      }
      engine.done(0, "the result", "the log");
    });
    const answer = await bench().run();
    expect(answer).toMatchObject({ code: 0, stdout: "the result", stderr: "the log" });
    expect(seen).toEqual(Array.from({ length: 20 }, (_, i) => `net${i}`));
  });
});

eachBuild("an order", (bench) => {
  test.each(["", ".", "..", "a/b", "/bin/sh", "../bin/p", "p\0x"])(
    "with plugin type %j is refused [S-401]",
    async (type) => {
      const result = await bench().order({ type });
      expect(result).toMatchObject({ outcome: "refused", code: 0, stdout: "" });
      expect(result.message).toMatch(/^plugin type ".*" is not a plain file name$/);
    },
  );

  test.each(["LD_PRELOAD=/x.so", "PATH=/x", "CNI_IFNAME", "", "CNI_A=1\0LD_PRELOAD=x"])(
    "with environment entry %j is refused [S-104]",
    async (entry) => {
      bench().plugin("p", "echo ran");
      const result = await bench().order({ type: "p", env: ["CNI_A=1", entry] });
      const message = "environment entry 2 is not CNI_NAME=VALUE";
      expect(result).toMatchObject({ outcome: "refused", stdout: "", message });
    },
  );

  test.each([
    ["", ""],
    [":", ""],
    ["/dev/null", "/dev/null"],
    ["/none::/nowhere", "/none:/nowhere"],
  ])("reports the plugin and the path if the plugin is missing in %j", async (path, named) => {
    const message = `no plugin "nope" in "${named}"`;
    const result = await bench().order({ type: "nope", path }, { CNI_PATH: path });
    expect(result).toMatchObject({ outcome: "missing", code: 0, message });
  });

  test("executes the first regular file in its path, and skips directories and missing files", async () => {
    const first = join(bench().dir, "first");
    mkdirSync(join(first, "p"), { recursive: true });
    const second = join(bench().dir, "second");
    mkdirSync(second);
    symlinkSync(bench().plugin("real", "echo second"), join(second, "p"));
    bench().plugin("p", "echo third");
    const path = `/nonexistent:${first}:${second}:${bench().bin}`;
    expect(await bench().order({ type: "p", path }, { CNI_PATH: path })).toMatchObject({
      stdout: "second\n",
    });
  });
});

const noInterpreter = "the interpreter of its #! line, or its ELF loader, does not exist";
const noProgram = "it is built for another architecture, or is a script without a #! line";
const notAllowed =
  "it or its interpreter is not executable, its file system is mounted noexec, or SELinux or AppArmor forbids it";

/** A dynamic executable whose loader has a path of the same length that does not exist. */
function withoutLoader(): Buffer {
  const program = readFileSync("/bin/true");
  const at = program.indexOf("/lib");
  program.write("/non", at);
  return program;
}

eachBuild("a plugin that cannot be executed", (bench) => {
  test("fails with an errno if there may be no further process", async () => {
    const path = bench().plugin("p", "echo ran");
    const starter = [bench().compile("without"), "clone"];
    const env = { ASAN_OPTIONS: "detect_leaks=0" }; // which needs a process
    const result = await bench().order({ type: "p" }, env, starter);
    const message = `cannot execute ${path}: Resource temporarily unavailable`;
    expect(result).toMatchObject({ outcome: "failed", code: 11, stdout: "", message });
  });

  test.each([
    ["is not executable", "#!/bin/sh\n", 0o644, 13, notAllowed],
    ["has an interpreter that is not executable", "#!/etc/passwd\n", 0o755, 13, notAllowed],
    ["is not a program", "just text", 0o755, 8, noProgram],
    ["lacks its interpreter", "#!/no/such/shell\n", 0o755, 2, noInterpreter],
    ["lacks its ELF loader", withoutLoader(), 0o755, 2, noInterpreter],
  ])("fails with an errno if it %s", async (...[, content, mode, errno, text]) => {
    const path = join(bench().bin, "p");
    writeFileSync(path, content, { mode });
    const message = `cannot execute ${path}: ${text}`;
    const result = await bench().order({ type: "p" });
    expect(result).toMatchObject({ outcome: "failed", code: errno, message });
  });

  test.each([
    [1000, { outcome: "exited", code: 0 }, 150_000],
    [5000, { outcome: "failed", code: 26 }, 1_900_000],
  ])("is retried for two seconds, if open for writing for %i ms", async (ms, expected, least) => {
    bench().compile("open-fds");
    const fd = openSync(join(bench().bin, "open-fds"), "r+");
    setTimeout(() => closeSync(fd), ms);
    const result = await bench().order({ type: "open-fds" });
    expect(result).toMatchObject(expected);
    expect(result.elapsedUs).toBeGreaterThan(least);
    expect(result.elapsedUs).toBeLessThan(3_500_000);
  });
});

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
