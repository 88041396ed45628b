import { beforeEach, describe, expect, test } from "vitest";
import { formatDefaultPlan } from "#records/record-file.ts";
import { fixedCases } from "../testing/fixed-cases.ts";
import { runModel } from "../testing/model-shim.ts";
import { netns, order, ShimLab } from "../testing/shim-lab.ts";
import { Process } from "../world/schedule.ts";
import type { EngineSession } from "../world/world.ts";
import { startAgent } from "./shim/agent.ts";

const stateDir = "/var/lib/plexus";
const add = order("x", { env: { CNI_COMMAND: "ADD", CNI_NETNS: netns }, timeoutMs: 100_000 });
const ok = { exitCode: 0, stdout: "{}", stderr: "" };
const never = new Promise<never>(() => undefined);
let lab: ShimLab;

beforeEach(() => {
  lab = new ShimLab();
});

const del = { CNI_COMMAND: "DEL" };
const serveOk = (session: EngineSession): Promise<void> => session.done(ok);

/** An engine that attaches, and then ends with the whole process. */
function dying(ifName: string): Process {
  const process = new Process("plexusd");
  return lab.listen(async (session) => {
    await session.exec(order(ifName, { env: { CNI_COMMAND: "ADD" } }));
    lab.world.schedule.kill(process);
  }, process);
}

describe("without an engine", () => {
  test.each([
    ["ADD", "1 11", 10_000],
    ["CHECK", "1 11", 10_000],
    ["STATUS", "1 50", 5000],
    ["GC", "1 11", 0],
    ["DEL", "1 11", 0],
    ["PAUSE", "1 4", 0],
  ])("%s ends with %s after %d ms", async (CNI_COMMAND, status, ms) => {
    expect(await lab.run(() => lab.call({ CNI_COMMAND, CNI_NETNS: netns }))).toBe(status);
    expect(lab.nowMs).toBeGreaterThanOrEqual(ms);
    expect(lab.nowMs).toBeLessThan(ms + 100);
    expect(lab.files()).toEqual([]);
  });

  test("an ADD is served by a plexusd that starts within 10 s", async () => {
    lab.world.schedule.at(3_000_000, () => lab.listen(serveOk));
    expect(await lab.run(() => lab.call())).toBe("0");
    expect(lab.nowMs).toBeLessThan(3100);
  });

  test("a hung plexusd is given up after 30 s; orders decide how the call ends", async () => {
    lab.writePlan(["net1"]);
    let orders = 0;
    lab.listen(async (session) => {
      const attaching = order("x", { env: { CNI_COMMAND: "ADD" } });
      for (let i = 0; i < orders; i++) await session.exec(attaching);
      await never;
    });
    expect(await lab.run(() => lab.call())).toBe("1 11");
    expect(lab.files()).toEqual(["c1@eth0.record 600"]);
    orders = 2;
    expect(await lab.run(() => lab.call())).toBe("1 11");
    expect(lab.nowMs).toBeGreaterThan(60_000);
    expect(lab.nowMs).toBeLessThan(61_000);
    expect(lab.executed.slice(2)).toEqual(["DEL c1 net1 ''"]);
    expect(lab.files()).toEqual(["c1@eth0.detached 1600"]);
  });

  test("plexus-standalone serves the call, and is killed if it hangs", async () => {
    const process = new Process("plexus-standalone");
    lab.world.startStandalone = () => ({ process, accept: () => undefined });
    expect(await lab.run(() => lab.call(del))).toBe("1 11");
    expect(process.isAlive).toBe(false);
  });

  test("plexus-standalone serves further calls, until it ends or hangs", async () => {
    const started: Process[] = [];
    let isHanging = false;
    lab.world.startStandalone = () => {
      started.push(new Process("plexus-standalone"));
      const accept = (session: EngineSession): void =>
        isHanging ? undefined : void serveOk(session);
      return { process: started.at(-1) as Process, accept };
    };
    for (const count of [1, 1]) {
      expect(await lab.run(() => lab.call())).toBe("0");
      expect(started).toHaveLength(count);
    }
    lab.world.schedule.kill(started[0] as Process);
    expect(await lab.run(() => lab.call())).toBe("0");
    expect(started).toHaveLength(2);
    isHanging = true;
    expect(await lab.run(() => lab.call(del))).toBe("1 11");
    expect(started.map(({ isAlive }) => isAlive)).toEqual([false, true, false]);
    expect(lab.nowMs).toBeGreaterThan(60_000);
  });
});

describe("a replay", () => {
  test.each(fixedCases)("$name", async ({ name: _, case: wanted, ...end }) => {
    expect(await runModel(wanted, netns)).toEqual(end);
  });

  test("fails with code 6 for a record without its end", async () => {
    lab.world.disk.writeFile(`${stateDir}/c1@eth0.record`, "x", 0o600);
    expect(await lab.run(() => lab.call(del))).toBe("1 6");
    expect(lab.executed).toEqual([]);
  });

  test.each([
    ["the pod has no other interfaces", "0", () => undefined],
    [
      "the pod has other interfaces",
      "1 11",
      () =>
        lab.world.kernel.addLink({
          ...{ containerId: "c1", ifName: "net1", network: "n", plugin: "macvlan", netns },
          kind: "link",
        }),
    ],
  ])("of default.plan happens if %s", async (_, status, prepare) => {
    prepare();
    const { CNI_CONTAINERID: __, ...env } = order("eth0").env;
    const plan = formatDefaultPlan([{ ...order("eth0"), env }]);
    lab.world.disk.writeFile(`${stateDir}/default.plan`, plan, 0o600);
    expect(await lab.run(() => lab.call({ ...del, CNI_NETNS: netns }))).toBe(status);
    expect(lab.executed).toEqual(status === "0" ? [`DEL c1 eth0 '${netns}'`] : []);
  });
});

describe("a session", () => {
  test("carries the CNI variables and the state of the namespace", async () => {
    const seen: unknown[] = [];
    lab.listen((session) => {
      seen.push(session.request.env);
      return session.done(ok);
    });
    await lab.run(() => lab.call({ CNI_NETNS: netns, PATH: "/bin" }));
    await lab.run(() => lab.call({ CNI_NETNS: "/gone" }));
    const common = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0" };
    expect(seen).toEqual([
      { ...common, CNI_NETNS: netns, PLEXUS_NETNS: "ok", PLEXUS_LINKS: "lo/" },
      { ...common, CNI_NETNS: "/gone", PLEXUS_NETNS: "gone" },
    ]);
  });

  test("executes pipelined orders one after another, and answers in their order", async () => {
    const outcomes: unknown[] = [];
    lab.world.missingPlugins.add("bridge");
    lab.behaviours.set("dead", "dies before its work").set("hung", "hangs before its work");
    lab.listen(async (session) => {
      const all = [
        session.exec(order("eth0", { timeoutMs: 50 })),
        session.find([], ["ptp", "bridge", "none"]),
        session.exec(order("hung", { timeoutMs: 50 })),
        session.exec(order("dead")),
        session.exec(order("x", { type: "bridge" })),
        session.exec(order("x", { env: { CNI_COMMAND: "GC" } })),
        session.exec(order("x", { env: { CNI_CONTAINERID: "c2" } })),
      ];
      for (const each of all) {
        const answer = await each;
        outcomes.push(
          "outcome" in answer ? `${answer.outcome} ${answer.code}` : answer.map((a) => a.outcome),
        );
      }
      await session.done(ok);
    });
    expect(await lab.run(() => lab.call())).toBe("0");
    expect(outcomes).toEqual([
      ...["exited 0", ["found", "missing", "missing"], "timeout 0", "signaled 9"],
      ...["missing 0", "refused 0", "refused 0"],
    ]);
    expect(lab.executed.map((line) => line.split(" ")[2])).toEqual(["eth0", "hung", "dead"]);
  });

  test.each(["the shim", "its runtime"])("ends with its delegate if %s is killed", async (who) => {
    lab.behaviours.set("hung", "hangs before its work");
    const seen: string[] = [];
    lab.listen(async (session) => {
      const { gone } = session;
      const pending = [session.exec(order("hung")), session.exec(order("eth0"))];
      for (const each of pending) await each.catch((error: Error) => seen.push(error.name));
      seen.push(String(gone.aborted), await session.done(ok).then(String, (e: Error) => e.name));
    });
    const running: Process[] = [];
    lab.world.observer.delegateStarted = (_, process) => void running.push(process);
    let isEnded = false;
    await lab
      .run(async () => {
        const { schedule } = lab.world;
        const { process } = lab.start();
        await schedule.sleep(10_000);
        const check = (): void => {
          isEnded = !process.isAlive && running.every(({ isAlive }) => !isAlive);
        };
        schedule.at(10_000, check, schedule.outside);
        schedule.at(
          1,
          () => schedule.kill(who === "the shim" ? process : lab.runtime),
          schedule.outside,
        );
        return never;
      })
      .catch(() => undefined);
    expect(isEnded).toBe(true);
    expect(seen).toEqual(["HostGoneError", "HostGoneError", "true", "HostGoneError"]);
  });
});

test("a DEL removes Multus's files of its container once there is a record or a tombstone", async () => {
  const { disk } = lab.world;
  const dir = "/var/lib/cni/multus";
  const runtime = "/var/lib/cni/results";
  for (const path of [dir, `${dir}/results`]) disk.mkdir(path);
  const files = ["c1", "c2", "results/n-c1-eth0", "results/n-c2-eth0", "results/n-c2-c1-eth0"];
  const write = (path: string): void => {
    const containerId = path.includes("c2") ? "c2" : "c1";
    disk.writeFile(path, JSON.stringify({ containerId }));
  };
  for (const name of files) write(`${dir}/${name}`);
  for (const name of ["m-c1-eth0", "m-c2-eth0"]) write(`${runtime}/${name}`);
  lab.listen(serveOk);
  const names = (): string[] =>
    [dir, `${dir}/results`, runtime].flatMap((path) => disk.list(path).map(([name]) => name));
  const others = ["c2", "m-c2-eth0", "n-c2-c1-eth0", "n-c2-eth0", "results"];
  await lab.run(() => lab.call(del));
  expect(names().toSorted()).toEqual(["c1", "m-c1-eth0", "n-c1-eth0", ...others].sort());
  lab.writePlan(["x"]);
  await lab.run(() => lab.call(del));
  expect(names().toSorted()).toEqual(others);
});

test("an agent carries out DELs, and connects to the next plexusd when one dies", async () => {
  const outcomes: string[] = [];
  const orders = [
    order("x", { env: { CNI_CONTAINERID: "c9" } }),
    order("x", { env: { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c9" } }),
  ];
  const serve = async (session: EngineSession): Promise<void> => {
    expect(session.request.env.CNI_COMMAND).toBe("AGENT");
    for (const each of orders) outcomes.push((await session.exec(each)).outcome);
    lab.world.schedule.kill(lab.world.schedule.current);
  };
  lab.listen(serve);
  await lab.run(async () => {
    startAgent(false);
    await lab.world.schedule.sleep(1_000_000);
    lab.listen(serve, new Process("plexusd"));
    await lab.world.schedule.sleep(20_000_000);
  });
  expect(outcomes).toEqual(["exited", "refused", "exited", "refused"]);
});

describe.each(["an event", "a change of the disk"])("a shim that is killed before %s", (where) => {
  test("lets the next DEL detach everything, whichever it is", async () => {
    let isKilled = true;
    let nth = 1;
    for (; isKilled && nth < 1000; nth++) {
      lab = new ShimLab(nth);
      isKilled = await killBefore(nth);
      expect(await lab.run(() => lab.call(del)), `kill ${nth}`).toBe("0");
      expect(lab.files().map((line) => line.split(" ")[0])).toEqual(["c1@eth0.detached"]);
      const all = new Set(lab.executed.map((line) => line.split(" ")[2]));
      expect([...all].toSorted()).toEqual(["eth0", "net1"]);
    }
    expect(nth).toBeGreaterThan(10);
    expect(nth).toBeLessThan(1000);
  });

  /** Kills an ADD, which its engine has left, before the nth time. @returns whether there is one */
  async function killBefore(nth: number): Promise<boolean> {
    const { schedule } = lab.world;
    lab.writePlan(["net1", "eth0"]);
    dying("eth0");
    return lab.run(async () => {
      const { process, ended } = lab.start();
      if (where === "an event") schedule.beforeEvent({ event: nth }, () => schedule.kill(process));
      let changes = 0;
      lab.disk = () =>
        where !== "an event" && schedule.current === process && changes++ === nth
          ? "process killed"
          : "none";
      const exit = await ended;
      lab.disk = () => "none";
      return exit === undefined;
    });
  }
});

test.each(["ENOSPC", "EIO", "EROFS"] as const)(
  "a DEL ends in order when a change of the disk fails with %s",
  async (error) => {
    let isFault = true;
    for (let nth = 0; isFault; nth++) {
      lab = new ShimLab(nth);
      lab.writePlan(["net1", "eth0"]);
      let changes = 0;
      lab.disk = () => (changes++ === nth ? error : "none");
      expect(await lab.run(() => lab.call(del)), `change ${nth}`).toMatch(/^(0|1 5)$/);
      isFault = changes > nth;
      lab.disk = () => "none";
      expect(await lab.run(() => lab.call(del)), `change ${nth}`).toBe("0");
      expect(lab.files().map((line) => line.split(" ")[0])).toContain("c1@eth0.detached");
    }
  },
);

describe("locks", () => {
  /** An engine that takes this long for each call, and what it does when. */
  function slow(ms: number): string[] {
    const seen: string[] = [];
    lab.listen(async (session) => {
      const { CNI_COMMAND, CNI_CONTAINERID = "" } = session.request.env;
      seen.push(`${CNI_COMMAND} ${CNI_CONTAINERID} begins`.replace("  ", " "));
      await lab.world.schedule.sleep(ms * 1000);
      seen.push(`${CNI_COMMAND} ${CNI_CONTAINERID} ends`.replace("  ", " "));
      await session.done(ok);
    });
    return seen;
  }

  /** Starts calls 10 ms apart. */
  async function calls(...envs: Record<string, string>[]): Promise<string[]> {
    return lab.run(async () => {
      const all = [];
      for (const env of envs) {
        all.push(lab.call(env));
        await lab.world.schedule.sleep(10_000);
      }
      return Promise.all(all);
    });
  }

  test("calls of one sandbox are served one after another, others at once", async () => {
    const seen = slow(1000);
    expect(await calls({}, del, { CNI_CONTAINERID: "c2" })).toEqual(["0", "0", "0"]);
    expect(seen.map((line) => line.split(" ").slice(0, 3).join(" "))).toEqual([
      ...["ADD c1 begins", "ADD c2 begins", "ADD c1 ends", "DEL c1 begins", "ADD c2 ends"],
      "DEL c1 ends",
    ]);
    expect(lab.files()).toEqual([]);
  });

  test("calls of one sandbox do not overlap, although they remove and create its lock file", async () => {
    const seen = slow(25);
    await calls(...Array.from({ length: 10 }, () => ({ CNI_COMMAND: "CHECK" })));
    const one = ["CHECK c1 begins", "CHECK c1 ends"];
    expect(seen).toEqual(Array.from({ length: 10 }, () => one).flat());
  });

  test("GC excludes other calls, but for STATUS, until its first DEL", async () => {
    let isLate = false;
    const seen: string[] = [];
    lab.listen(async (session) => {
      const { CNI_COMMAND = "" } = session.request.env;
      seen.push(CNI_COMMAND);
      if (CNI_COMMAND === "GC") {
        await session.exec(order("x", { env: { CNI_COMMAND: "GC", CNI_CONTAINERID: "" } }));
        const gcOfOther = order("x", { env: { CNI_COMMAND: "GC", CNI_CONTAINERID: "c9" } });
        expect((await session.exec(gcOfOther)).outcome).toBe("refused");
        await lab.world.schedule.sleep(1_000_000);
        seen.push("GC: DEL");
        await session.exec(order("x", { env: { CNI_CONTAINERID: "c9" } }));
        await lab.world.schedule.sleep(1_000_000);
        isLate = true;
      } else if (CNI_COMMAND === "ADD") expect(isLate).toBe(false);
      await session.done(ok);
    });
    const gc = { CNI_COMMAND: "GC", CNI_CONTAINERID: "" };
    expect(await calls(gc, {}, { CNI_COMMAND: "STATUS" })).toEqual(["0", "0", "0"]);
    expect(seen).toEqual(["GC", "STATUS", "GC: DEL", "ADD"]);
  });

  test("a call gives up after 60 s", async () => {
    slow(70_000);
    expect(await calls({}, { ...del, PLEXUS_SILENCE_MS: "90000" })).toEqual(["1 11", "0"]);
    lab = new ShimLab();
    slow(70_000);
    const patient = { PLEXUS_SILENCE_MS: "90000" };
    expect(await calls(patient, del)).toEqual(["0", "1 11"]);
    expect(lab.nowMs).toBeGreaterThan(70_000);
  });

  test("on a full disk calls exclude each other on the whole node", async () => {
    lab.disk = (_, path) => (path.endsWith(".lock") ? "ENOSPC" : "none");
    const seen = slow(1000);
    const c2 = { CNI_CONTAINERID: "c2" };
    expect(await calls({}, c2, { ...del, ...c2 })).toEqual(["0", "0", "0"]);
    const inside = seen.map((line) => line.split(" ").at(-1));
    expect(inside).toEqual(["begins", "ends", "begins", "ends", "begins", "ends"]);
  });

  test.each([
    ["one that ends within 10 s", 4e6, 4000],
    ["one that ends later", 60e6, 10_000],
  ])("a call waits for what a delegate has left running: %s", async (_, durationUs, ms) => {
    lab.behaviours.set("x", "leaves a child");
    lab.durationUs = durationUs;
    const seen: string[] = [];
    lab.listen(async (session) => {
      seen.push(`${session.request.env.CNI_COMMAND} at ${Math.floor(lab.nowMs / 1000)} s`);
      if (session.request.env.CNI_COMMAND === "ADD") await session.exec(add);
      await session.done(ok);
    });
    expect(await lab.run(() => lab.call({ CNI_NETNS: netns }))).toBe("0");
    expect(lab.nowMs).toBeGreaterThan(2000);
    expect(lab.nowMs).toBeLessThan(2100);
    expect(lab.files()).toEqual(["c1.lock 600"]);
    expect(await lab.run(() => lab.call(del))).toBe("0");
    // Its name is no longer in the lock file, so it is not killed, and may run on.
    const second = (durationUs > 10e6 ? ms + 2000 : ms) / 1000;
    expect(seen).toEqual(["ADD at 0 s", `DEL at ${second} s`]);
    expect(lab.files()).toEqual(durationUs > 10e6 ? ["c1.lock 600"] : []);
  });

  test("a delegate that is killed after its time limit is killed with its child", async () => {
    lab.behaviours.set("x", "leaves a child");
    lab.durationUs = 60e6;
    lab.listen(async (session) => {
      await session.exec(order("x"));
      await session.done(ok);
    });
    expect(await lab.run(() => lab.call(del))).toBe("0");
    expect(Math.round(lab.nowMs / 100)).toBe(10);
    expect(lab.files()).toEqual([]);
  });

  test("a call kills what a delegate of a killed shim has left running after 10 s", async () => {
    lab.behaviours.set("x", "leaves a child");
    lab.durationUs = 60e6;
    const children: Process[] = [];
    lab.world.observer.delegateStarted = (_, process) => void children.push(process);
    lab.listen(async (session) => {
      if (session.request.env.CNI_COMMAND === "ADD") await session.exec(add);
      await session.done(ok);
    });
    const statuses = await lab.run(async () => {
      const first = lab.start({ CNI_NETNS: netns });
      await lab.world.schedule.sleep(100_000);
      lab.world.schedule.kill(first.process);
      expect(children.at(-1)?.isAlive).toBe(true);
      return [await first.ended, await lab.call(del)];
    });
    expect(statuses).toEqual([undefined, "0"]);
    expect(children.at(-1)?.isAlive).toBe(false);
    expect(Math.round(lab.nowMs / 1000)).toBe(10);
    expect(lab.files()).toEqual([]);
  });

  test("a DEL that hangs after its runtime was killed is killed by the next one after 10 s", async () => {
    lab.behaviours.set("x", "hangs before its work");
    let isFirst = true;
    lab.listen(async (session) => {
      if (isFirst) {
        isFirst = false;
        await session.exec(order("x", { timeoutMs: 1e6 }));
      }
      await session.done(ok);
    });
    const { schedule } = lab.world;
    const abandoned = new Process("runtime");
    let first: Process | undefined;
    schedule.at(
      0,
      () => {
        first = lab.start(del).process;
      },
      abandoned,
    );
    schedule.at(1_000_000, () => schedule.kill(abandoned), schedule.outside);
    const status = await lab.run(async () => {
      await schedule.sleep(2_000_000);
      expect(first?.isAlive).toBe(true);
      return lab.call(del);
    });
    expect([status, first?.isAlive, Math.round(lab.nowMs / 1000)]).toEqual(["0", false, 12]);
  });
});
