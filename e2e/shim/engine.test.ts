import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { bootClockMs } from "#lib/boot-clock.ts";
import { waitUntil } from "../support/wait.ts";
import { encodeExec, encodeFrame, FrameType } from "./lab/frames.ts";
import { cniError, eachBuild, noSense, type Script } from "./lab/harness.ts";
import { earlier } from "./lab/plan-file.ts";
import { answering, standalone } from "./lab/standalone.ts";

const raw = (hex: string): Buffer => Buffer.from(hex.replaceAll(" ", ""), "hex");
const silent = { PLEXUS_SILENCE_MS: "400" };

eachBuild("a call to plexusd", (bench) => {
  test("sends the protocol version, stdin and the CNI variables in its request", async () => {
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done(0, "ok\n");
    });
    const before = bootClockMs() * 1000;
    const env = { CNI_ARGS: "K=V", PLEXUS_TRACE: "t1", OTHER: "no", CNI_OTHER: "x=y" };
    const answer = await bench().run({ env, stdin: '{"name":"n"}' });
    expect(answer).toMatchObject({ code: 0, stdout: "ok\n" });
    expect(fields.slice(0, 2)).toEqual(["4", '{"name":"n"}']);
    const [started] = fields.filter((field) => field.startsWith("PLEXUS_STARTED_MONOTONIC_US="));
    const startedUs = Number(started?.split("=")[1]);
    expect(startedUs).toBeGreaterThanOrEqual(before);
    expect(startedUs).toBeLessThanOrEqual(bootClockMs() * 1000);
    expect(fields.slice(2).sort()).toEqual([
      "CNI_ARGS=K=V",
      "CNI_COMMAND=ADD",
      "CNI_CONTAINERID=c1",
      "CNI_IFNAME=eth0",
      "CNI_NETNS=",
      "CNI_OTHER=x=y",
      `CNI_PATH=${bench().bin}`,
      "PLEXUS_ALIVE=yes",
      started,
      "PLEXUS_TRACE=t1",
    ]);
  });

  test("replays the plan of a DEL that a plexusd of another release declines", async () => {
    await bench().engine((engine) => engine.done(75, '{"code":11}'));
    const plan = earlier(bench());
    expect(await plan.del({})).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(["a"]);
    const error = { code: 1, stdout: '{"code":11}' };
    expect(await bench().run({ env: { PLEXUS_WAIT_MS: "300" } })).toMatchObject(error);
  });

  test.each([
    ["ADD", false],
    ["CHECK", false],
    ["DEL", true],
    ["GC", true],
  ])("says when a %s started: %s", async (CNI_COMMAND, isSaid) => {
    let names: string[] = [];
    await bench().engine((engine) => {
      names = engine.request.fields.map((field) => String(field).split("=")[0] ?? "");
      engine.done();
    });
    expect(await bench().run({ env: { CNI_COMMAND } })).toMatchObject({ code: 0 });
    expect(names.includes("PLEXUS_STARTED_MONOTONIC_US")).toBe(isSaid);
  });

  test.each([
    ["", undefined],
    ["a pod's namespace", "ok"],
    ["/proc/self/ns/net", "own"],
    ["a bind mount of the shim's own namespace", "own"],
    ["/nonexistent/netns", "gone"],
    ["/dev/null/netns", "gone"],
    ["/proc/self/ns/mnt", "gone"],
    ["/dev/null", "gone"],
    ["/proc/4194305/ns/net", "gone"],
    ["a symlink to itself", "gone"],
    [`/${"x".repeat(300)}`, "gone"],
  ])("reports CNI_NETNS %j as PLEXUS_NETNS=%s", async (path, state) => {
    const pinned = join(bench().dir, "netns");
    const paths: Record<string, () => string> = {
      "a pod's namespace": () => bench().netns(),
      "a bind mount of the shim's own namespace": () => {
        writeFileSync(pinned, "");
        execFileSync("mount", ["--bind", "/proc/self/ns/net", pinned]);
        return pinned;
      },
      "a symlink to itself": () => {
        symlinkSync(pinned, pinned);
        return pinned;
      },
    };
    let fields: string[] = [];
    await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done();
    });
    try {
      await bench().run({ env: { CNI_NETNS: paths[path]?.() ?? path } });
    } finally {
      if (path.startsWith("a bind mount")) execFileSync("umount", [pinned]);
    }
    expect(fields.filter((field) => /^PLEXUS_(NETNS|LINKS)/.test(field))).toEqual(
      state === undefined
        ? []
        : [`PLEXUS_NETNS=${state}`, ...(state === "ok" ? ["PLEXUS_LINKS=lo/"] : [])],
    );
  });

  test("fails if there are more CNI variables than fields in a frame", async () => {
    const many = Array.from({ length: 60 }, (_, i): [string, string] => [`CNI_X${i}`, "v"]);
    const error = cniError(await bench().run({ env: Object.fromEntries(many) }));
    expect(error.code).toBe(4);
    expect(error.msg).toMatch(/^there are more than \d+ CNI variables$/);
  });

  test("sends 8 MiB of stdin in full, and prints a large result in full", async () => {
    const stdin = Buffer.alloc(8 << 20, "{ ");
    const large = "x".repeat(5 << 20);
    let same = false;
    await bench().engine((engine) => {
      same = stdin.equals(engine.request.fields[1]!);
      engine.done(255, large, "log");
    });
    const answer = await bench().run({ stdin });
    expect(answer).toMatchObject({ code: 255, stderr: "log" });
    expect(same && answer.stdout === large).toBe(true);
  });

  test("uses an answer that plexusd sends before it has read the request", async () => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.pause();
      socket.end(encodeFrame(FrameType.done, [1, "too large", ""]), () => socket.destroy());
    });
    await new Promise<void>((listening) => server.listen(bench().socket, listening));
    const answer = await bench().run({ stdin: Buffer.alloc(4 << 20, " ") });
    server.close();
    expect(answer).toMatchObject({ code: 1, stdout: "too large" });
  });

  test("refuses a peer that does not run as root [S-501]", async () => {
    const dir = join(bench().dir, "nobody");
    mkdirSync(dir);
    chownSync(dir, 65534, 65534);
    const socket = join(dir, "s");
    // The process changes its user only now: another user may not be able to execute Node below /root.
    const script = `process.setgid(65534); process.setuid(65534);
      require("net").createServer((s) => s.destroy()).listen(${JSON.stringify(socket)})`;
    const peer = spawn(process.execPath, ["-e", script], { stdio: "ignore" });
    try {
      await waitUntil("the peer listens", () => existsSync(socket));
      const error = cniError(await bench().run({ env: { PLEXUS_SOCKET: socket } }));
      expect(error.code).toBe(999);
      expect(error.msg).toBe(`refused to connect to ${socket}: its owner has uid 65534, not 0`);
    } finally {
      peer.kill();
    }
  });

  test("fails if the socket's path is too long", async () => {
    const path = `/${"x".repeat(106)}`;
    const error = async (PLEXUS_SOCKET: string) =>
      cniError(await bench().run({ env: { PLEXUS_SOCKET, PLEXUS_WAIT_MS: "1" } }));
    expect(await error(path)).toMatchObject({ code: 11 });
    expect(await error(`${path}x`)).toMatchObject({
      code: 4,
      msg: "PLEXUS_SOCKET is longer than 107 bytes",
    });
  });
});

eachBuild("while plexusd is unavailable", (bench) => {
  test.each(["ADD", "CHECK", "STATUS"])("%s waits for plexusd", async (CNI_COMMAND) => {
    const call = bench().start({ env: { CNI_COMMAND, PLEXUS_WAIT_MS: "10000" } });
    setTimeout(() => void bench().engine((engine) => engine.done(0, "late")), 400);
    const answer = await call.ended;
    expect(answer).toMatchObject({ code: 0, stdout: "late" });
    expect(answer.ms).toBeGreaterThan(350);
    expect(answer.ms).toBeLessThan(3000);
  });

  test("ADD retries if plexusd closes the connection early", async () => {
    let calls = 0;
    await bench().engine((engine) => {
      calls++;
      if (calls < 3) engine.socket.destroy();
      else engine.done(0, "third");
    });
    const answer = await bench().run({ env: { PLEXUS_WAIT_MS: "10000" } });
    expect(answer).toMatchObject({ code: 0, stdout: "third" });
    expect(calls).toBe(3);
  });

  test("CHECK reports a stale socket as a refused connection", async () => {
    const owner = spawn(process.execPath, [
      "-e",
      `require("net").createServer().listen(${JSON.stringify(bench().socket)})`,
    ]);
    await waitUntil("the owner listens", () => existsSync(bench().socket));
    owner.kill("SIGKILL");
    await new Promise((ended) => owner.on("close", ended));
    const error = cniError(await bench().run({ env: { CNI_COMMAND: "CHECK" } }));
    expect(error.msg).toMatch(/after 300 ms: Connection refused; is the plexus DaemonSet/);
  });

  test("STATUS waits for at most five seconds", async () => {
    const answer = await bench().run({ env: { CNI_COMMAND: "STATUS", PLEXUS_WAIT_MS: "60000" } });
    expect(cniError(answer)).toMatchObject({
      code: 50,
      msg: expect.stringMatching(/after 5000 ms: /),
    });
    expect(answer.ms).toBeGreaterThan(4900);
  });

  test("DEL does not wait, and replays the teardown plan", async () => {
    const plan = earlier(bench());
    const answer = await plan.del({ PLEXUS_WAIT_MS: "20000" });
    expect(answer).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(["a"]);
    expect(answer.ms).toBeLessThan(3000);
  });
});

eachBuild("an engine that fails before the call has begun", (bench) => {
  const detaching = () => ["g", "noop", bench().bin, 5000, "", "CNI_COMMAND=DEL"];
  const closed = /: it closed the connection early; is the plexus DaemonSet runn/;
  test.each<[string, Script, number, RegExp]>([
    ["closes the connection", (engine) => void engine.socket.destroy(), 11, closed],
    ["sends a cut frame", (engine) => void engine.socket.end(raw("00000010 02 00")), 11, closed],
    ["does not answer", () => undefined, 11, /: it did not answer in time; is/],
    ["sends an unknown frame", (engine) => engine.send(42, []), 999, new RegExp(`^${noSense}$`)],
  ])("if it %s, DEL replays the plan and other commands do not [S-108]", async (...row) => {
    const [, script, code, message] = row;
    const plan = earlier(bench());
    await bench().engine(script);
    for (const CNI_COMMAND of ["ADD", "CHECK", "GC", "STATUS"]) {
      const error = cniError(await plan.del({ CNI_COMMAND, ...silent }));
      expect(error.code).toBe(CNI_COMMAND === "STATUS" && code === 11 ? 50 : code);
      expect(error.msg).toMatch(message);
    }
    expect(plan.ran).toEqual([]);
    expect(await plan.del(silent)).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(["a"]);
  });

  test.each<[string, Script]>([
    ["reads in a namespace", (engine) => engine.send(FrameType.netlink, ["", "x"])],
    [
      "detaches an earlier container with its ID",
      (engine) => engine.send(FrameType.exec, detaching()),
    ],
  ])(
    "if it %s, an ADD leaves the earlier plan, and another engine serves it",
    async (_, script) => {
      const plan = earlier(bench());
      bench().plugin("noop", "");
      await bench().engine(async (engine) => {
        await script(engine);
        await engine.read();
        engine.socket.destroy();
      });
      expect(cniError(await bench().run()).msg).toMatch(closed);
      const env = { PLEXUS_STANDALONE: standalone(bench(), answering) };
      expect((await bench().run({ env })).stdout).toBe("standalone");
      expect(plan.ran).toEqual([]);
      expect(statSync(plan.path).mode & 0o7777).toBe(0o600);
    },
  );

  test("if it stops answering after a plugin search, plexus-standalone serves the call", async () => {
    await bench().engine((engine) => void engine.find(bench().bin, "p").catch(() => undefined));
    const env = { PLEXUS_STANDALONE: standalone(bench(), answering), PLEXUS_SILENCE_MS: "5000" };
    expect((await bench().run({ env })).stdout).toBe("standalone");
  });
});

eachBuild("an engine that fails after an order", (bench) => {
  const order = async (script: Script): Promise<void> => {
    bench().plugin("noop", "");
    await bench().engine(async (engine) => {
      await engine.exec({ type: "noop", path: bench().bin });
      await script(engine);
    });
  };
  const goAway: Script = (engine) => void engine.socket.destroy();

  test.each<[string, Script, number, string]>([
    ["closes the connection", goAway, 11, "plexusd closed the connection during the call"],
    ["stops answering", () => undefined, 11, "plexusd stopped answering during the call"],
    ["sends an unknown frame", (engine) => engine.send(42, []), 999, noSense],
  ])("if it %s, ADD and DEL detach from the plan, without plexus-standalone", async (...row) => {
    const [, script, code, message] = row;
    const plan = earlier(bench());
    await order(script);
    const env = { PLEXUS_STANDALONE: standalone(bench(), answering), ...silent };
    const msg = `${message}; rolled back everything that was attached`;
    expect(cniError(await bench().run({ env }))).toMatchObject({ code, msg });
    expect(plan.ran).toEqual(["a DEL c1 eth0 '' conf"]);
    expect(existsSync(plan.path)).toBe(false);
    plan.write([{}]);
    expect(await plan.del(env)).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(["a", "a"]);
    for (const CNI_COMMAND of ["CHECK", "GC", "STATUS"])
      expect(cniError(await plan.del({ CNI_COMMAND, ...env }))).toMatchObject({
        code,
        msg: message,
      });
  });

  test("ADD reports what it could not roll back", async () => {
    earlier(bench()).step("a", "echo 'device busy' >&2; exit 1");
    await order(goAway);
    const error = cniError(await bench().run());
    expect(error.code).toBe(11);
    expect(error.msg).toMatch(/; could not roll back: a: device busy/);
  });

  test("DEL looks for no plan if the container ID is not a valid file name", async () => {
    const plan = earlier(bench());
    await order(goAway);
    const error = cniError(await plan.del({ CNI_CONTAINERID: "../state/c1" }));
    expect(error).toMatchObject({ code: 11, msg: "plexusd closed the connection during the call" });
  });

  test("the time that a delegate runs does not count as silence of the engine", async () => {
    bench().plugin("slow", "sleep 0.8; echo slow");
    const result = await bench().order({ type: "slow" }, silent);
    expect(result).toMatchObject({ outcome: "exited", stdout: "slow\n" });
  });

  test("if it reads no answers, it does not block the call", async () => {
    bench().plugin("large", "head -c 4000000 /dev/zero");
    await bench().engine((engine) => {
      engine.socket.write(encodeExec({ type: "large", path: bench().bin }));
      engine.socket.pause();
    });
    const error = cniError(await bench().run({ env: silent }));
    expect(error.msg).toMatch(/^plexusd stopped answering during the call/);
  });

  test("if it keeps sending orders, it can delay the call past the silence limit and fail it [S-114]", async () => {
    await bench().engine(async (engine) => {
      for (let i = 0; i < 5; i++) {
        await sleep(200);
        await engine.find(bench().bin, "p");
      }
      engine.done(1, "no");
    });
    const answer = await bench().run({ env: { PLEXUS_SILENCE_MS: "600" } });
    expect(answer).toMatchObject({ code: 1, stdout: "no" });
  });
});

eachBuild("orders that an engine sends without waiting for answers", (bench) => {
  test("run one after another, and are answered in the same order", async () => {
    bench().plugin("slow", "sleep 0.2; echo slow");
    bench().plugin("fast", "echo fast");
    const seen: unknown[] = [];
    await bench().engine(async (engine) => {
      const find = encodeFrame(FrameType.find, [bench().bin, "slow", "none"]);
      const netlink = encodeFrame(FrameType.netlink, ["", "x"]);
      const execs = ["slow", "fast"].map((type) => encodeExec({ type, path: bench().bin }));
      engine.socket.write(Buffer.concat([find, ...execs, netlink]));
      seen.push((await engine.read()).fields.map(String)[0]);
      seen.push((await engine.readExecResult()).stdout, (await engine.readExecResult()).stdout);
      seen.push((await engine.readNetlinkResult()).errno);
      engine.done(0, "done");
    });
    expect(await bench().run()).toMatchObject({ code: 0, stdout: "done" });
    expect(seen).toEqual(["found", "slow\n", "fast\n", 22]);
  });
});

function withAnotherByte(frame: Buffer): Buffer {
  const longer = Buffer.concat([frame, Buffer.of(0)]);
  longer.writeUInt32BE(longer.length - 4);
  return longer;
}

eachBuild("an engine that violates the protocol", (bench) => {
  const nonsense: [string, Buffer][] = [
    ["an unknown frame", encodeFrame(42, ["x"])],
    ["a frame that only the shim sends", encodeFrame(FrameType.execResult, ["x"])],
    ["an empty frame", raw("00000000")],
    ["a frame larger than the limit", raw("01000001 02")],
    ["the largest frame length", raw("ffffffff ff")],
    ["a field that is longer than its frame", raw("00000006 02 00000009 00")],
    ["the largest field length", raw("0000000a 02 ffffffff 0000000000")],
    ["a field without a terminating NUL", raw("00000007 02 00000001 41 42")],
    ["a truncated field length", raw("00000003 02 0000")],
    ["too many fields", encodeFrame(FrameType.exec, new Array<string>(65).fill("CNI_A=1"))],
    ["an order with too few fields", encodeFrame(FrameType.exec, ["g", "p", "/bin", 1000])],
    ["an order with a bad timeout", encodeFrame(FrameType.exec, ["g", "p", "/bin", "-1", ""])],
    [
      "an order with a huge timeout",
      encodeFrame(FrameType.exec, ["g", "p", "/bin", "9999999999", ""]),
    ],
    ["a netlink order without bytes", encodeFrame(FrameType.netlink, [""])],
    ["a plugin search without a path", encodeFrame(FrameType.find, [])],
    ["required plugins without a search path", encodeFrame(FrameType.require, [])],
    ["a plugin search with a NUL in its path", encodeFrame(FrameType.find, ["/a\0b", "p"])],
    ["a search for too many plugins", encodeFrame(FrameType.find, new Array<string>(62).fill("p"))],
    ["a netlink path with a NUL", encodeFrame(FrameType.netlink, ["a\0b", "x".repeat(16)])],
    ["a result with an empty exit code", encodeFrame(FrameType.done, ["", "out", ""])],
    ["a result with exit code 256", encodeFrame(FrameType.done, [256, "out", ""])],
    ["a result with too few fields", encodeFrame(FrameType.done, [0])],
    ["a result with a byte too many", withAnotherByte(encodeFrame(FrameType.done, [0, "out", ""]))],
    ["an order for agents", encodeFrame(FrameType.sandbox, ["c2", "eth0", "/netns"])],
  ];

  test.each(nonsense)("fails the call with a clear error: %s", async (_, bytes) => {
    await bench().engine((engine) => void engine.socket.write(bytes));
    const error = cniError(await bench().run());
    expect(error).toMatchObject({ cniVersion: "1.0.0", code: 999, msg: noSense });
  });
});
