import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { FrameType } from "./lab/frames.ts";
import { type Bench, type Call, type ExecResult, eachBuild } from "./lab/harness.ts";
import { addRoute, DUMP, deleteRoute, linkMessage, RTM_GETLINK } from "./lab/netlink-messages.ts";

function startAgent(bench: Bench, env: Record<string, string> = {}, ...options: string[]): Call {
  return bench.start({ args: ["agent", ...options], env, stdin: "" });
}

function makeLink(path: string): void {
  renameSync(path, `${path}.real`);
  symlinkSync(`${path}.real`, path);
}

async function stop(agent: Call): Promise<void> {
  agent.child.kill("SIGTERM");
  expect(await agent.ended).toMatchObject({ code: 0, signal: null, stdout: "" });
}

eachBuild("plexus agent", (bench) => {
  test("identifies itself to plexusd, and sends no variables of a container", async () => {
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
    });
    const agent = startAgent(bench(), { CNI_NETNS: "/proc/self/ns/net", CNI_ARGS: "A=1" });
    await waitUntil("an order was carried out", () => fields.length > 0);
    await stop(agent);
    expect(fields.slice(0, 2)).toEqual(["4", ""]);
    const sent = ["CNI_COMMAND=AGENT", `CNI_PATH=${bench().bin}`, "PLEXUS_ALIVE=yes"];
    expect(fields.slice(2).sort()).toEqual(sent);
  });

  test("carries out only orders that are allowed in a DEL without a container [S-112]", async () => {
    bench().plugin("p", 'echo "ran $CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS"');
    const netns = bench().netns();
    const results: ExecResult[] = [];
    let found: [string, string][] = [];
    let finished = false;
    const netlink: number[] = [];
    await bench().engine(async (engine) => {
      const order = (...env: string[]) => engine.exec({ type: "p", path: "/none", env });
      results.push(
        await order("CNI_COMMAND=DEL", "CNI_CONTAINERID=c2", `CNI_NETNS=${netns}`),
        await order("CNI_COMMAND=DEL", "CNI_CONTAINERID=c2", "CNI_NETNS="),
        await order("CNI_COMMAND=ADD", "CNI_CONTAINERID=c2"),
        await order("CNI_COMMAND=GC"),
        await order("CNI_COMMAND=DEL", "CNI_CONTAINERID=c2", "CNI_NETNS=/proc/self/ns/net"),
      );
      found = await engine.find(bench().bin, "p", "none");
      const list = linkMessage(RTM_GETLINK, { flags: DUMP });
      for (const bytes of [list, addRoute, deleteRoute])
        netlink.push((await engine.netlink(netns, bytes)).errno);
      finished = true;
    });
    const agent = startAgent(bench());
    await waitUntil("the engine is done", () => finished);
    await stop(agent);
    expect(results.map(({ outcome, stdout }) => `${outcome} ${stdout}`)).toEqual([
      `exited ran DEL c2 ${netns}\n`,
      "exited ran DEL c2 \n",
      "refused ",
      "refused ",
      "refused ",
    ]);
    expect(found.map(([outcome]) => outcome)).toEqual(["found", "missing"]);
    expect(netlink).toEqual([0, 1, 1]);
  });

  test.each<[string, (bin: string) => void, string]>([
    ["its directory is root's", () => undefined, "ran"],
    ["it is a link of root", (bin) => makeLink(join(bin, "p")), "ran"],
    ["root's group may write its directory", (bin) => chmodSync(bin, 0o775), "ran"],
    ["its directory is another user's", (bin) => chownSync(bin, 12345, 0), "refused"],
    ["all may write its directory", (bin) => chmodSync(bin, 0o777), "refused"],
    ["it is another user's", (bin) => chownSync(join(bin, "p"), 12345, 0), "refused"],
  ])(
    "trusts a plugin of its CNI_PATH only if none but root can change it: %s [S-503]",
    async (_, change, expected) => {
      const { bin } = bench();
      bench().plugin("p", 'echo "$CNI_PATH"');
      change(bin);
      const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
      let result: Partial<ExecResult> = {};
      await bench().engine(async (engine) => {
        result = await engine.exec({ type: "p", path: bin, env });
      });
      const agent = startAgent(bench());
      await waitUntil("the result is there", () => result.outcome !== undefined);
      await stop(agent);
      const ran = { outcome: "exited", stdout: `${bin}\n`, message: "" };
      const message = `plugin "p" in ${bin} is not trusted: make every component of its path root's and writable by root alone, or start plexus agent with --any-owner`;
      expect(result).toMatchObject(
        expected === "ran" ? ran : { outcome: "refused", stdout: "", message },
      );
    },
  );

  test.each([
    { options: [], passed: ["bin"] },
    { options: ["--any-owner"], passed: ["open", "bin"] },
  ])(
    "started with [$options], passes of its CNI_PATH only $passed to plugins [S-503]",
    async ({ options, passed }) => {
      const { dir, bin } = bench();
      const open = join(dir, "open");
      mkdirSync(open);
      chownSync(open, 12345, 0);
      bench().plugin("p", 'echo "$CNI_PATH"');
      const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
      let stdout = "";
      await bench().engine(async (engine) => {
        stdout = (await engine.exec({ type: "p", path: bin, env })).stdout;
      });
      const agent = startAgent(bench(), { CNI_PATH: `${open}:${bin}` }, ...options);
      await waitUntil("the plugin has run", () => stdout !== "");
      await stop(agent);
      expect(stdout).toBe(`${passed.map((name) => join(dir, name)).join(":")}\n`);
    },
  );

  test("with --any-owner, trusts its CNI_PATH as the runtime does, but no listed directory [S-503]", async () => {
    const { bin, dir, pluginDirs } = bench();
    const listed = join(dir, "listed");
    mkdirSync(listed);
    writeFileSync(pluginDirs, `${listed}\n`);
    const plugins = [bench().plugin("p", "echo ran"), bench().plugin("q", "echo ran", listed)];
    for (const path of [bin, ...plugins]) chownSync(path, 12345, 12345);
    chmodSync(bin, 0o777);
    const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
    const results: ExecResult[] = [];
    await bench().engine(async (engine) => {
      results.push(await engine.exec({ type: "p", path: bin, env }));
      results.push(await engine.exec({ type: "q", path: listed, env }));
    });
    const agent = startAgent(bench(), {}, "--any-owner");
    await waitUntil("both results are there", () => results.length === 2);
    await stop(agent);
    const message = `plugin "q" in ${listed} is not trusted: make every component of its path root's and writable by root alone`;
    expect(results).toMatchObject([
      { outcome: "exited", stdout: "ran\n" },
      { outcome: "refused", message },
    ]);
  });

  test("waits for orders without a time limit", async () => {
    let outcome = "";
    let connections = 0;
    bench().plugin("p", "");
    await bench().engine(async (engine) => {
      connections++;
      await sleep(600);
      const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
      outcome = (await engine.exec({ type: "p", path: bench().bin, env })).outcome;
    });
    const agent = startAgent(bench(), { PLEXUS_SILENCE_MS: "200" });
    await waitUntil("the outcome is there", () => outcome !== "");
    await stop(agent);
    expect([outcome, connections]).toEqual(["exited", 1]);
  });

  const unknown =
    "plexusd sent a frame that this shim does not know; install both from one release";
  test.each<[string, Parameters<Bench["engine"]>[0], reason: string]>([
    [
      "closes the connection",
      (engine) => void engine.socket.destroy(),
      "it closed the connection early",
    ],
    ["sends a result", (engine) => engine.done(1), "plexusd ended the session"],
    ["sends an invalid frame", (engine) => engine.send(FrameType.request, []), unknown],
    ["names half a sandbox", (engine) => engine.send(FrameType.sandbox, ["c1", "eth0"]), unknown],
    [
      "says too much of a sandbox",
      (engine) => engine.send(FrameType.sandbox, ["c1", "eth0", "/netns", "attach", ""]),
      unknown,
    ],
  ])("reconnects if plexusd %s, and logs the reason once", async (_, script, reason) => {
    let connections = 0;
    const agent = startAgent(bench());
    await sleep(300);
    const socket = join(bench().dir, "new");
    await bench().engine((engine) => {
      connections++;
      return script(engine);
    }, socket);
    // Between bind() and listen() the agent would be refused, which is another reason.
    renameSync(socket, bench().socket);
    await waitUntil("the agent has connected again", () => connections >= 2);
    agent.child.kill("SIGTERM");
    const { code, stderr } = await agent.ended;
    expect(code).toBe(0);
    expect(stderr.trim().split("\n")).toEqual([
      "plexus agent: it does not exist; reconnecting",
      `plexus agent: ${reason}; reconnecting`,
    ]);
  });

  test("reconnects with growing pauses, and soon after a session with an order", async () => {
    let [connections, hasOrders] = [0, false];
    await bench().engine(async (engine) => {
      connections++;
      if (hasOrders) await engine.exec({ type: "none", path: bench().bin });
      engine.socket.destroy();
    });
    const agent = startAgent(bench());
    await waitUntil("it has connected", () => connections > 0);
    await sleep(3000);
    expect(connections).toBeLessThan(8);
    [connections, hasOrders] = [0, true];
    await waitUntil("it has connected again and again", () => connections >= 9);
    await stop(agent);
    bench().forgiveEngine();
  });

  test("has no more open descriptors after any order, or the end of a session", async () => {
    const { bin, dir, state, pluginDirs } = bench();
    const locked = join(state, "c9.lock");
    const holder = spawn("flock", [locked, "sh", "-c", "echo; exec sleep 60"]);
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    const dump = linkMessage(RTM_GETLINK, { flags: DUMP });
    const [netns, ownNetns] = [bench().netns(), bench().ownNetns()];
    bench().plugin("p", "");
    bench().plugin("q", "", dir);
    writeFileSync(pluginDirs, `${dir}\n`);
    writeFileSync(join(bin, "text"), "text", { mode: 0o755 });
    const del = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c2" };
    const orders: [string, string, Record<string, string>][] = [
      ["exited", "p", { ...del, CNI_NETNS: netns }],
      ["exited", "q", { ...del, CNI_NETNS: netns }],
      ["failed", "text", del],
      ["missing", "none", del],
      ["refused", "p", { ...del, CNI_CONTAINERID: "c9" }],
      ["refused", "p", { ...del, CNI_NETNS: ownNetns }],
      ["refused", "p", { ...del, CNI_NETNS: "/proc/self/ns/mnt" }],
      ["refused", "p", { ...del, CNI_NETNS: "/nonexistent" }],
    ];
    const answers: [number, string, Buffer][] = [
      [0, netns, dump],
      [0, ownNetns, dump],
      [1, netns, addRoute],
      [22, "/proc/self/ns/mnt", dump],
      [2, "/etc/passwd", dump],
    ];
    const agent = startAgent(bench());
    const open: number[] = [];
    const count = (): void => void open.push(readdirSync(`/proc/${agent.child.pid}/fd`).length);
    await once(agent.child.stderr!, "data");
    count();
    await sleep(1000); // for more attempts to connect
    const sessions = 2;
    const isOver = (): boolean => open.length > sessions * (orders.length + answers.length);
    await bench().engine(async (engine) => {
      if (isOver()) return;
      for (const [outcome, type, variables] of orders) {
        const env = Object.entries(variables).map((entry) => entry.join("="));
        const result = await engine.exec({ type, path: `${bin}:${dir}`, env });
        expect(result).toMatchObject({ outcome });
        count();
      }
      for (const [errno, path, bytes] of answers) {
        expect(await engine.netlink(path, bytes)).toMatchObject({ errno });
        count();
      }
      engine.done();
    });
    await waitUntil("two sessions are over", isOver);
    const [before = 0, ...during] = open;
    await stop(agent);
    expect(new Set(during)).toEqual(new Set([before + 1]));
  });

  test("exits on SIGTERM while a delegate is running", async () => {
    bench().plugin("p", "sleep 60");
    let isRunning = false;
    await bench().engine(async (engine) => {
      isRunning = true;
      const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
      await engine.exec({ type: "p", path: bench().bin, env }).catch(() => undefined);
    });
    const agent = startAgent(bench());
    await waitUntil("the delegate runs", () => isRunning);
    await sleep(200);
    await stop(agent);
  });

  test("with --once, asks plexusd to clean up all leftovers, prints the answer and returns its exit code", async () => {
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done(1, "default/web: remains\n");
    });
    const { code, stdout } = await bench().run({ args: ["agent", "--once"], stdin: "" });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "default/web: remains\n" });
    expect(fields).toContain("PLEXUS_AGENT=once");
  });

  test.each<[string, Parameters<Bench["engine"]>[0] | undefined, string]>([
    ["plexusd is unavailable", undefined, "cannot reach plexusd: it does not exist"],
    [
      "plexusd closes the connection",
      async (engine) => {
        await engine.exec({ type: "none", path: bench().bin });
        engine.socket.destroy();
      },
      "not all leftovers were tried: plexusd closed the connection during the call",
    ],
  ])("with --once, fails if %s", async (_, script, message) => {
    if (script !== undefined) await bench().engine(script);
    const { code, stderr } = await bench().run({ args: ["agent", "--once"], stdin: "" });
    expect({ code, stderr }).toEqual({ code: 1, stderr: `plexus agent: ${message}\n` });
  });

  test("with --mount-namespace, runs the plugins of that mount namespace", async () => {
    const hidden = `${bench().dir}/run`;
    mkdirSync(hidden);
    const holder = spawn("unshare", [
      "--mount",
      "sh",
      "-c",
      `mount -t tmpfs -o mode=0755 tmpfs ${hidden} && cp ${bench().plugin("p", "echo inside")} ${hidden} && echo && sleep 60`,
    ]);
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    let result: Partial<ExecResult> = {};
    await bench().engine(async (engine) => {
      const env = ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2"];
      result = await engine.exec({ type: "p", path: hidden, env });
      engine.done();
    });
    const { code } = await bench().run({
      args: ["agent", `--mount-namespace=/proc/${holder.pid}/ns/mnt`, "--once"],
      env: { CNI_PATH: hidden },
      stdin: "",
    });
    expect({ code, ...result }).toMatchObject({ code: 0, outcome: "exited", stdout: "inside\n" });
  });

  test.each([
    ["--mount-namespace=/nowhere", "plexus agent: /nowhere: it does not exist"],
    ["--hlep", "plexus agent: --hlep: unknown option; usage: plexus agent"],
  ])("rejects %s", async (option, message) => {
    const { code, stderr } = await bench().run({ args: ["agent", option], stdin: "" });
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });

  test("--help prints the usage", async () => {
    const { code, stdout } = await bench().run({ args: ["agent", "--help"], stdin: "" });
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringContaining("\nusage: plexus agent ["),
    });
  });
});
