import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { cniPluginDir, distPath } from "../../support/paths.ts";
import { standaloneEnvironment, standalonesOf } from "../../support/plexusd.ts";
import { signal, waitForExit } from "../../support/processes.ts";

/* The compiled plexus-standalone, as the shim finds it again. */

const lingerMs = 2000;
let dir: string;
let socket: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-further-"));
  socket = join(dir, "run/plexus.sock");
  await mkdir(join(dir, "manifests"));
  configure({});
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  onTestFinished(() => standalonesOf(socket).forEach((pid) => void signal(pid, "SIGKILL")));
});

function configure(keys: object): void {
  writeFileSync(join(dir, "config.yaml"), JSON.stringify(keys));
}

function environment(command: string): Record<string, string> {
  return {
    ...standaloneEnvironment({
      ...{ socket, stateDir: join(dir, "state"), manifests: join(dir, "manifests") },
      config: join(dir, "config.yaml"),
    }),
    ...{ CNI_COMMAND: command, CNI_PATH: cniPluginDir() },
    ...{ CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", PLEXUS_LINGER_MS: `${lingerMs}` },
  };
}

const conf = JSON.stringify({
  cniVersion: "1.1.0",
  name: "plexus",
  type: "plexus",
  delegates: [{ type: "loopback", name: "a" }],
});

/** A call of this process, or of a program that it starts. Resolves when the shim's output is closed. */
async function call(command = "DEL", program: string[] = []): Promise<string> {
  const [file = "", ...args] = [...program, distPath("plexus")];
  const shim: ChildProcess = spawn(file, args, { env: environment(command) });
  let printed = "";
  for (const stream of [shim.stdout, shim.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
  shim.stdin?.end(conf);
  const code = await new Promise((resolve) => shim.on("close", resolve));
  return `${code} ${printed}`;
}

test("20 calls at once start one process, which ends two seconds after the last one", async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => call()));
  expect(new Set(answers)).toEqual(new Set(["0 "]));
  const [pid = 0] = standalonesOf(socket);
  expect(standalonesOf(socket)).toEqual([pid]);
  await sleep(lingerMs - 500);
  await call();
  await sleep(lingerMs - 500);
  expect(standalonesOf(socket)).toEqual([pid]);
  await waitForExit(pid);
  expect(existsSync(join(dir, "run-standalone"))).toBe(false);
});

test("a process ends with its runtime", async () => {
  const runtime = ["sh", "-c", '"$@"; code=$?; sleep 0.1; exit $code', "sh"];
  expect(await call("DEL", runtime)).toBe("0 ");
  const [pid = 0] = standalonesOf(socket);
  await waitForExit(pid);
});

test("a process whose shim was killed just before the answer ends, too", async () => {
  await call();
  const [pid = 0] = standalonesOf(socket);
  signal(pid, "SIGSTOP");
  const shim = spawn(distPath("plexus"), { env: environment("CHECK") });
  shim.stdin.end(conf);
  await sleep(200);
  shim.kill("SIGKILL");
  signal(pid, "SIGCONT");
  await waitForExit(pid);
});

test("the errors of every call reach the runtime, and a process that was killed is replaced", async () => {
  const failed = async (): Promise<string> =>
    (await call("CHECK")).replace(/"durationMs":[\d.]+/, "");
  const first = await failed();
  expect(first).toMatch(/^1 \{"level":"error".*"code": 4/s);
  expect(await failed()).toBe(first);
  const [pid = 0] = standalonesOf(socket);
  signal(pid, "SIGKILL");
  await waitForExit(pid);
  expect(await failed()).toBe(first);
});

test("an invalid configuration fails each call, and is read again for the next one", async () => {
  await call();
  configure({ apiTimeoutMs: "none" });
  expect(await call()).toContain("apiTimeoutMs");
  configure({});
  expect(await call()).toBe("0 ");
});
