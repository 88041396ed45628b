import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { isRunning, waitForExit } from "../support/processes.ts";
import { waitUntil } from "../support/wait.ts";
import { encodePlan, FrameType } from "./lab/frames.ts";
import { type Bench, type Call, cniError, eachBuild, type Script } from "./lab/harness.ts";
import { addRoute, linkMessage, RTM_DELLINK } from "./lab/netlink-messages.ts";

/** A sandbox with a record. Returns its network namespace. */
function sandbox(bench: Bench, containerId = "c1"): string {
  const netns = bench.netns();
  writeFileSync(record(bench, containerId), recordOf(bench, netns, containerId), { mode: 0o600 });
  return netns;
}

/** A record with one attachment in that network namespace. */
function recordOf({ bin }: Bench, netns: string, containerId = "c1"): Buffer {
  const steps = [{ type: "p", path: bin, env: ["CNI_COMMAND=DEL", `CNI_NETNS=${netns}`] }];
  return encodePlan({ containerId, ifName: "eth0", steps });
}

function record(bench: Bench, containerId = "c1"): string {
  return join(bench.state, `${containerId}@eth0.record`);
}

/** A plugin that hangs once it has noted its process. */
function hangingPlugin(bench: Bench): () => Promise<number> {
  const begun = join(bench.dir, "begun");
  bench.plugin(
    "p",
    `[ "$CNI_COMMAND" = ADD ] || exit 0; echo $$ >${begun}.new; mv ${begun}.new ${begun}; exec sleep 60`,
  );
  return () =>
    waitUntil("the plugin runs", () => existsSync(begun) && Number(readFileSync(begun, "utf8")));
}

/** Starts an agent. Each of its sessions gets the next task; calls of the runtime are answered at once. */
async function agentFor(bench: Bench, tasks: Script[], { args = ["--attach"], env = {} } = {}) {
  const seen = { sessions: 0, calls: 0 };
  await bench.engine(async (engine) => {
    if (!engine.request.fields.map(String).includes("CNI_COMMAND=AGENT")) {
      seen.calls++;
      return engine.done();
    }
    seen.sessions++;
    await tasks.shift()?.(engine);
  });
  const agent = bench.start({ args: ["agent", ...args], env, stdin: "" });
  return { agent, seen };
}

/**
 * Kills an agent whose plugin runs, while another session waits.
 * @param next what the engine does with the next agent
 * @returns the plugin's process
 */
async function killAgentInPlugin(
  bench: Bench,
  next: (engine: Parameters<Script>[0], netns: string) => Promise<void>,
): Promise<number> {
  const plugin = hangingPlugin(bench);
  const netns = sandbox(bench);
  bench.plugin("outer", `${join(bench.bin, "p")}; echo`);
  const { agent, seen } = await agentFor(bench, [
    async (engine) => {
      await engine.sandbox("c1", "eth0", netns);
      const env = ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${netns}`];
      await engine.exec({ type: "outer", path: bench.bin, env }).catch(() => undefined);
    },
    () => undefined,
    (engine) => next(engine, netns),
  ]);
  const pid = await plugin();
  await waitUntil("another session waits", () => seen.sessions === 2);
  agent.child.kill("SIGKILL");
  await agent.ended;
  return pid;
}

const del = (bench: Bench, env = {}): Call => bench.start({ env: { CNI_COMMAND: "DEL", ...env } });

eachBuild("plexus agent --attach", (bench) => {
  test("says so, and connects another session with the first order of one", async () => {
    const netns = sandbox(bench());
    let fields: string[] = [];
    let order = (): void => undefined;
    const ordered = new Promise<void>((resolve) => {
      order = resolve;
    });
    const { seen } = await agentFor(bench(), [
      async (engine) => {
        fields = engine.request.fields.map(String);
        await ordered;
        await engine.sandbox("c1", "eth0", netns);
        await engine.ended();
      },
    ]);
    await waitUntil("a session waits", () => seen.sessions === 1);
    expect(fields.slice(2)).toContain("PLEXUS_AGENT=attach");
    await sleep(200);
    expect(seen.sessions).toBe(1);
    order();
    await waitUntil("the next session waits", () => seen.sessions === 2);
    bench().forgiveEngine();
  });

  test("connects another session if one ends without an order", async () => {
    const { agent, seen } = await agentFor(bench(), []);
    await waitUntil("a session waits", () => seen.sessions === 1);
    const { pid } = agent.child;
    process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")), "SIGKILL");
    const killed = performance.now();
    await waitUntil("another one waits", () => seen.sessions === 2);
    expect(performance.now() - killed).toBeGreaterThan(9000);
    bench().forgiveEngine();
  });

  test("ends with the reason if it can start no session", async () => {
    const env = { ASAN_OPTIONS: "detect_leaks=0" }; // which needs descriptors
    const starter = ["prlimit", "--nofile=4"];
    const answer = await bench().run({ args: ["agent", "--attach"], env, starter, stdin: "" });
    const stderr = expect.stringMatching(/^plexus agent: cannot start a session: \w.*\n$/);
    expect(answer).toMatchObject({ code: 1, stdout: "", stderr });
  });

  test("has at most 32 sessions with a task", async () => {
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const busy: Script = async (engine) => {
      await engine.find(bench().bin, "p");
      await ended;
      engine.done();
    };
    const { agent, seen } = await agentFor(
      bench(),
      Array.from({ length: 32 }, () => busy),
    );
    await waitUntil("all have a task", () => seen.sessions === 32);
    await sleep(200);
    expect(seen.sessions).toBe(32);
    expect(readdirSync(`/proc/${agent.child.pid}/fd`).length).toBeLessThan(10);
    end();
    await waitUntil("another session waits", () => seen.sessions === 33);
  });

  test("attaches one sandbox in its network namespace, and nothing else [S-119] [S-120]", async () => {
    bench().plugin("p", 'echo "ran $CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS"');
    const netns = sandbox(bench());
    const other = bench().netns();
    const results: string[] = [];
    const denied = 1;
    let netlink: number[] = [];
    let again = true;
    await agentFor(bench(), [
      async (engine) => {
        results.push((await engine.sandbox("c1", "eth0", netns)).join(" "));
        for (const [command, id, path] of [
          ["ADD", "c1", netns],
          ["DEL", "c1", netns],
          ["CHECK", "c1", netns],
          ["ADD", "c1", other],
          ["ADD", "c1", "/proc/self/ns/net"],
          ["ADD", "c2", netns],
          ["DEL", "c2", ""],
          ["GC", "c1", ""],
        ]) {
          const env = [`CNI_COMMAND=${command}`, `CNI_CONTAINERID=${id}`, `CNI_NETNS=${path}`];
          const { outcome, stdout } = await engine.exec({ type: "p", path: bench().bin, env });
          results.push(`${outcome} ${stdout.trim()}`);
        }
        netlink = [
          (await engine.netlink(netns, addRoute)).errno,
          (await engine.netlink(other, addRoute)).errno,
          (await engine.netlink(netns, linkMessage(RTM_DELLINK, { name: "lo" }))).errno,
        ];
        engine.send(FrameType.sandbox, ["c2", "eth0", other]);
        await engine.ended();
        again = false;
      },
    ]);
    await waitUntil("a second sandbox has ended the session", () => !again);
    expect(results).toEqual([
      "ok  lo/",
      `exited ran ADD c1 ${netns}`,
      `exited ran DEL c1 ${netns}`,
      `exited ran CHECK c1 ${netns}`,
      ...Array.from({ length: 5 }, () => "refused "),
    ]);
    expect(netlink).toEqual([0, denied, denied]);
  });

  test("attaches with plugins that both it and the order trust, and passes on only their directories", async () => {
    const [shared, own, ordered] = ["shared", "own", "ordered"].map((name) => {
      const dir = join(bench().dir, name);
      mkdirSync(dir, { mode: 0o755 });
      bench().plugin(name, 'echo "$CNI_PATH"', dir);
      return dir;
    }) as [string, string, string];
    const netns = sandbox(bench());
    const path = `${ordered}:${shared}`;
    const results: string[] = [];
    let found: string[][] = [];
    const task: Script = async (engine) => {
      await engine.sandbox("c1", "eth0", netns);
      const env = [
        "CNI_COMMAND=ADD",
        "CNI_CONTAINERID=c1",
        `CNI_NETNS=${netns}`,
        `CNI_PATH=${path}`,
      ];
      for (const type of ["shared", "own", "ordered"]) {
        const { outcome, stdout, message } = await engine.exec({ type, path, env });
        results.push(`${outcome} ${stdout.trim()}${message}`);
      }
      found = await engine.find(path, "shared", "own", "ordered");
    };
    await agentFor(bench(), [task], { env: { CNI_PATH: `${shared}:${own}` } });
    await waitUntil("the plugins were looked up", () => found.length > 0);
    const refused = (type: string): string =>
      `directory ${ordered} of plugin "${type}" is not trusted: add it to the agent's CNI_PATH, or list it in ${bench().pluginDirs}`;
    expect(results).toEqual([
      `exited ${shared}`,
      `refused ${refused("own")}`,
      `refused ${refused("ordered")}`,
    ]);
    expect(found).toEqual([
      ["found", ""],
      ["refused", refused("own")],
      ["refused", refused("ordered")],
    ]);
  });

  test("passes no network namespace that was replaced with a link [S-103] [S-120]", async () => {
    bench().plugin("p", "");
    const netns = sandbox(bench());
    const other = bench().netns();
    const outcomes: string[] = [];
    await agentFor(bench(), [
      async (engine) => {
        await engine.sandbox("c1", "eth0", netns);
        execFileSync("umount", ["-l", netns]);
        rmSync(netns);
        symlinkSync(other, netns);
        const env = ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${netns}`];
        outcomes.push((await engine.exec({ type: "p", path: bench().bin, env })).outcome);
        rmSync(netns);
        writeFileSync(netns, "");
        execFileSync("mount", ["--bind", other, netns]); // which the bench unmounts
      },
    ]);
    await waitUntil("the outcome is there", () => outcomes.length > 0);
    expect(outcomes).toEqual(["refused"]);
  });

  const begun = "the sandbox has no whole record with this network namespace, or its DEL has begun";
  const misplaced =
    "the path is not where a pod's network namespace is mounted, or its interfaces cannot be listed";
  const running = "another operation on the sandbox runs, or garbage collection";
  const hold = async (path: string): Promise<void> => {
    const holder = spawn("flock", ["-x", path, "sh", "-c", "echo held; exec sleep 60"], {
      detached: true,
    });
    onTestFinished(() => void process.kill(-holder.pid!, "SIGKILL"));
    await new Promise((held) => holder.stdout.once("data", held));
  };
  const put = (content: string | Buffer): void => writeFileSync(record(bench()), content);
  /** The sandbox with another path, which its record has too. */
  const at = (pathOf: (netns: string) => string) => (netns: string) => {
    const path = pathOf(netns);
    put(recordOf(bench(), path));
    return path;
  };

  test.each<[string, (netns: string) => void | string | Promise<void>, string]>([
    ["another operation runs", () => hold(join(bench().state, "c1.lock")), `busy ${running}`],
    ["a GC runs", () => hold(bench().state), `busy ${running}`],
    ["it has no record", () => rmSync(record(bench())), `gone ${begun}`],
    ["its record is empty", () => put(""), `gone ${begun}`],
    [
      "its record is cut off",
      (netns) => put(recordOf(bench(), netns).subarray(0, -1)),
      `gone ${begun}`,
    ],
    ["its record is altered", (netns) => put(altered(recordOf(bench(), netns))), `gone ${begun}`],
    ["its record is another's", (netns) => put(recordOf(bench(), netns, "c2")), `gone ${begun}`],
    ["its record has another namespace", () => bench().netns(), `gone ${begun}`],
    ["its record is another user's", () => chownSync(record(bench()), 12345, 0), `gone ${begun}`],
    ["others can write its record", () => chmodSync(record(bench()), 0o660), `gone ${begun}`],
    ["its record is a link", () => makeLink(record(bench())), `gone ${begun}`],
    ["its DEL has begun", () => chmodSync(record(bench()), 0o1600), `gone ${begun}`],
    ["its namespace is gone", at(() => "/nonexistent"), `gone ${begun}`],
    ["its namespace is the host's", at(() => "/proc/self/ns/net"), `refused ${misplaced}`],
    [
      "its namespace is a process's",
      at(() => `/proc/${process.pid}/ns/net`),
      `refused ${misplaced}`,
    ],
    ["its path is a link", at(link), `refused ${misplaced}`],
  ])("locks no sandbox if %s [S-120]", async (_, prepare, expected) => {
    const netns = sandbox(bench());
    const path = (await prepare(netns)) ?? netns;
    let result = "";
    await agentFor(bench(), [
      async (engine) => {
        const [outcome, problem, links] = await engine.sandbox("c1", "eth0", path);
        await engine.ended();
        result = `${outcome} ${problem}`;
        if (expected.startsWith("gone")) expect(links).toBe("");
      },
    ]);
    await waitUntil("the session has ended", () => result !== "");
    expect(result).toBe(expected);
    if (!expected.startsWith("busy"))
      await waitUntil("it is not locked", () => !existsSync(join(bench().state, "c1.lock")));
  });

  function link(netns: string): string {
    symlinkSync(netns, `${netns}.link`);
    return `${netns}.link`;
  }

  function altered(plan: Buffer): Buffer {
    plan[plan.length >> 1]! ^= 1;
    return plan;
  }

  function makeLink(path: string): void {
    renameSync(path, `${path}.real`);
    symlinkSync(`${path}.real`, path);
  }

  test.each([
    ["no --attach is given", [], "c1", "plexus agent runs without --attach"],
    [
      "the container ID is a path",
      ["--attach"],
      "../c1",
      "invalid characters in containerID, or more than 200 characters",
    ],
  ])("locks no sandbox if %s [S-120]", async (...row) => {
    const [, args, id, problem] = row;
    const netns = sandbox(bench());
    const results: string[][] = [];
    const task: Script = async (engine) => {
      results.push(await engine.sandbox(id, "eth0", netns));
      await engine.ended();
    };
    const { seen } = await agentFor(bench(), [task], { args });
    await waitUntil("the agent has connected again", () => seen.sessions === 2);
    expect(results).toEqual([["refused", problem, ""]]);
    expect(readdirSync(bench().state)).toEqual(["c1@eth0.record"]);
  });

  test("locks no sandbox if the disk is full [S-120]", async () => {
    const { state } = bench();
    execFileSync("mount", ["-t", "tmpfs", "-o", "nr_inodes=2,mode=0700", "plexus", state]);
    const netns = sandbox(bench());
    let result: string[] = [];
    await agentFor(bench(), [
      async (engine) => {
        result = await engine.sandbox("c1", "eth0", netns);
      },
    ]);
    await waitUntil("the result is there", () => result.length > 0);
    execFileSync("umount", ["-l", state]);
    const problem = "the sandbox cannot be locked, as its lock file cannot be created";
    expect(result).toEqual(["refused", problem, ""]);
  });

  test("a hanging plugin delays no other sandbox, and its own one's DEL until it ends", async () => {
    const plugin = hangingPlugin(bench());
    const [first, second] = [sandbox(bench()), sandbox(bench(), "c2")];
    let other: string[] = [];
    let isOver = false;
    const { agent, seen } = await agentFor(bench(), [
      async (engine) => {
        await engine.sandbox("c1", "eth0", first);
        const env = ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${first}`];
        await engine.exec({ type: "p", path: bench().bin, env });
        isOver = true;
        engine.done();
      },
      async (engine) => {
        await plugin();
        other = await engine.sandbox("c2", "eth0", second);
        engine.done();
      },
    ]);
    await waitUntil("the other sandbox is locked", () => other[0] === "ok");
    const busy = await del(bench(), { PLEXUS_LOCK_MS: "300" }).ended;
    expect(cniError(busy)).toMatchObject({ code: 11, reason: "TryAgainLater" });
    const waiting = del(bench());
    process.kill(await plugin(), "SIGKILL");
    expect(await waiting.ended).toMatchObject({ code: 0 });
    expect({ isOver, calls: seen.calls }).toEqual({ isOver: true, calls: 1 });
    expect(agent.child.exitCode).toBeNull();
  });

  test("plexusd that ends while a plugin runs leaves the sandbox locked until the plugin has ended", async () => {
    const plugin = hangingPlugin(bench());
    const netns = sandbox(bench());
    await agentFor(bench(), [
      async (engine) => {
        await engine.sandbox("c1", "eth0", netns);
        const env = ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${netns}`];
        engine.exec({ type: "p", path: bench().bin, env }).catch(() => undefined);
        await plugin();
        engine.socket.destroy();
      },
    ]);
    const pid = await plugin();
    const busy = await del(bench(), { PLEXUS_LOCK_MS: "300" }).ended;
    expect(cniError(busy)).toMatchObject({ code: 11 });
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
    expect(await del(bench()).ended).toMatchObject({ code: 0 });
    expect(existsSync(record(bench()))).toBe(true);
  });

  test.each<NodeJS.Signals>(["SIGKILL", "SIGTERM"])(
    "%s ends its sessions with their plugins",
    async (signal) => {
      const plugin = hangingPlugin(bench());
      const netns = sandbox(bench());
      const { agent } = await agentFor(bench(), [
        async (engine) => {
          await engine.sandbox("c1", "eth0", netns);
          const env = ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${netns}`];
          await engine.exec({ type: "p", path: bench().bin, env }).catch(() => undefined);
        },
      ]);
      const pid = await plugin();
      agent.child.kill(signal);
      await agent.ended;
      await waitForExit(pid);
      expect(await del(bench()).ended).toMatchObject({ code: 0 });
      bench().forgiveEngine();
    },
  );

  test("the next one ends what the plugins of a killed agent have left running", async () => {
    let outcome: string | undefined;
    const pid = await killAgentInPlugin(bench(), async (engine, netns) => {
      outcome = (await engine.sandbox("c1", "eth0", netns))[0];
    });
    expect(isRunning(pid)).toBe(true);
    const env = { PLEXUS_STRAGGLER_MS: "300" };
    bench().start({ args: ["agent", "--attach"], env, stdin: "" });
    await waitUntil("the sandbox is locked", () => outcome === "ok");
    await waitForExit(pid);
    bench().forgiveEngine();
  });

  test("an inspection does not wait for what plugins have left running [S-603]", async () => {
    const netns = sandbox(bench());
    const pidFile = join(bench().dir, "pid");
    bench().plugin("p", `sleep 60 >/dev/null 2>&1 </dev/null & echo $! >${pidFile}`);
    await bench().order({ type: "p" });
    const pid = Number(readFileSync(pidFile, "utf8"));
    let result: string[] = [];
    const begun = performance.now();
    await agentFor(bench(), [
      async (engine) => {
        result = await engine.sandbox("c1", "eth0", netns, "inspect");
        engine.done();
      },
    ]);
    await waitUntil("the result is there", () => result.length > 0);
    expect(result).toEqual(["ok", "", "lo/"]);
    expect(performance.now() - begun).toBeLessThan(5000);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid);
  });

  test("an inspection is refused at once while a plugin of a killed agent runs", async () => {
    let result: string[] = [];
    const pid = await killAgentInPlugin(bench(), async (engine, netns) => {
      result = await engine.sandbox("c1", "eth0", netns, "inspect");
    });
    bench().start({ args: ["agent", "--attach"], stdin: "" });
    await waitUntil("the result is there", () => result.length > 0);
    expect(result).toEqual(["busy", running, ""]);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
    bench().forgiveEngine();
  });

  test.each<[string, (engine: Parameters<Script>[0], env: string[]) => void]>([
    ["is silent", () => undefined],
    [
      "does not read",
      (engine, env) => {
        engine.socket.pause();
        for (let i = 0; i < 4; i++)
          engine.exec({ type: "p", path: bench().bin, env }).catch(() => 0);
      },
    ],
  ])("an engine that %s loses the sandbox", async (_, then) => {
    bench().plugin("p", '[ "$CNI_COMMAND" = DEL ] || head -c 4000000 /dev/zero');
    const netns = sandbox(bench());
    let isLocked = false;
    await agentFor(
      bench(),
      [
        async (engine) => {
          isLocked = (await engine.sandbox("c1", "eth0", netns))[0] === "ok";
          then(engine, ["CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", `CNI_NETNS=${netns}`]);
        },
      ],
      { env: { PLEXUS_SILENCE_MS: "500" } },
    );
    await waitUntil("the sandbox is locked", () => isLocked);
    expect(await del(bench(), { PLEXUS_LOCK_MS: "8000" }).ended).toMatchObject({ code: 0 });
  });
});
