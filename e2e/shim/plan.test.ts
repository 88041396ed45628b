// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import {
  bootId,
  type ExecOrder,
  encodeFrame,
  encodePlan,
  encodePlanEnd,
  type FieldValue,
  FrameType,
} from "./lab/frames.ts";
import { type Answer, type Bench, cniError, eachBuild } from "./lab/harness.ts";

/** A plan on disk, whose steps note their name and environment. */
class Plan {
  readonly file: string;
  readonly #bench: Bench;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.file = join(bench.state, "c1@eth0.record");
    for (const name of ["a", "b", "c", "d"]) this.step(name, "");
  }

  /** Makes a plugin that notes its run and then does what the script says. */
  step(name: string, script: string): void {
    const note = `echo "${name} $CNI_COMMAND $CNI_IFNAME '$CNI_NETNS' $(cat)" >>${this.#bench.dir}/ran`;
    this.#bench.plugin(name, `${note}\n${script}`);
  }

  write(steps: Partial<ExecOrder>[], parts = {}): Buffer {
    const orders = steps.map((step) => ({
      type: "a",
      path: this.#bench.bin,
      stdin: "conf",
      env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1", "CNI_NETNS=/proc/self/ns/net"],
      ...step,
    }));
    const bytes = encodePlan({ containerId: "c1", ifName: "eth0", steps: orders, ...parts });
    this.writeRaw(bytes);
    return bytes;
  }

  writeRaw(bytes: Uint8Array): void {
    writeFileSync(this.file, bytes, { mode: 0o600 });
  }

  /** Whether its mode says that a DEL has begun. */
  get isMarked(): boolean {
    return (statSync(this.file).mode & 0o777) === 0o700;
  }

  replay(env: Record<string, string> = {}): Promise<Answer> {
    return this.#bench.run({ env: { CNI_COMMAND: "DEL", ...env } });
  }

  /** The names of the steps that ran. */
  get names(): string[] {
    return this.ran.map((line) => line.split(" ")[0]!);
  }

  get ran(): string[] {
    const file = join(this.#bench.dir, "ran");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  }
}

eachBuild("DEL from the plan", (bench) => {
  test("runs every step in order, removes the plan, and leaves a tombstone", async () => {
    const plan = new Plan(bench());
    plan.write([
      { type: "c", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "1" },
    ]);
    expect(await plan.replay()).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(plan.ran).toEqual(["c DEL net1 '' conf", "b DEL net1 '' conf", "a DEL net1 '' conf"]);
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
    expect(statSync(join(bench().state, "c1@eth0.detached"))).toMatchObject({ size: 0 });
  });

  test("done once more, it succeeds by its tombstone and runs nothing", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    for (let i = 0; i < 3; i++)
      expect(await plan.replay()).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(plan.ran).toHaveLength(1);
  });

  test("without plan and tombstone only plexusd can say what is attached", async () => {
    const error = cniError(await new Plan(bench()).replay());
    expect(error).toMatchObject({
      code: 11,
      msg:
        "could not detach: there is no record of this sandbox, and only plexusd can tell what to " +
        "detach, as there is no usable default.plan (it does not exist)",
    });
  });

  test("an empty plan is done", async () => {
    const plan = new Plan(bench());
    plan.write([]);
    expect(await plan.replay()).toMatchObject({ code: 0, stdout: "" });
    expect(existsSync(plan.file)).toBe(false);
  });

  test("uses today's CNI_NETNS where it is a network namespace", async () => {
    const plan = new Plan(bench());
    plan.write([{}, { env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1"] }]);
    const netns = bench().netns();
    await plan.replay({ CNI_NETNS: netns });
    expect(plan.ran).toEqual(Array(2).fill(`a DEL net1 '${netns}' conf`));
  });

  test.each([
    "",
    "/nonexistent/netns",
    "/dev/null",
    "/etc/passwd",
    "/proc/self/ns/mnt",
    "/proc/self/ns/net",
    `/proc/${process.pid}/ns/net`,
  ])("empties CNI_NETNS %j, also for steps that do not set it", async (netns) => {
    const plan = new Plan(bench());
    plan.write([{}, { env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1"] }]);
    await plan.replay({ CNI_NETNS: netns });
    expect(plan.ran).toEqual(Array(2).fill("a DEL net1 '' conf"));
  });

  test("after a failure: skips the rest of that group, continues with others, keeps the whole plan", async () => {
    const plan = new Plan(bench());
    plan.step("b", `echo '{ "code": 7,\n\t"msg": "still busy" }'; exit 1`);
    const written = plan.write([
      { type: "c", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "1" },
      { type: "d", group: "0" },
    ]);
    const error = cniError(await plan.replay());
    expect(error.code).toBe(102);
    expect(error.msg).toBe('could not detach: b: { "code": 7,  "msg": "still busy" } ');
    expect(plan.ran.map((line) => line[0])).toEqual(["c", "b", "d"]);
    expect(readFileSync(plan.file)).toEqual(written);
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.record"]);

    plan.step("b", "");
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(plan.ran.map((line) => line[0])).toEqual(["c", "b", "d", "c", "b", "a", "d"]);
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
  });

  test("every kind of failure is reported in one line", async () => {
    const plan = new Plan(bench());
    plan.step("a", "echo 'on stderr' >&2; exit 2");
    plan.step("b", "exit 3");
    plan.step("c", "kill -9 $$");
    plan.step("d", "sleep 60");
    const written = plan.write([
      { type: "a", group: "1" },
      { type: "b", group: "2" },
      { type: "c", group: "3" },
      { type: "d", group: "4", timeoutMs: 200 },
      { type: "e", group: "5" },
    ]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toBe(
      "could not detach: a: on stderr ; b: it failed without a message; c: killed by signal 9; " +
        `d: still running after 200 ms; killed; e: no plugin "e" in "${bench().bin}"`,
    );
    expect(readFileSync(plan.file)).toEqual(written);
  });

  test("the words that containerd takes for success do not get through [S-604]", async () => {
    const plan = new Plan(bench());
    plan.step("a", "echo 'Not Found: link not found: No such file or directory'; exit 1");
    plan.write([{}]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toMatch(/^could not detach: a: /);
    expect(msg).not.toMatch(/not found|no such file or directory/i);
  });

  test("what delegates print is made safe: invalid UTF-8, control characters, length [S-604]", async () => {
    const plan = new Plan(bench());
    plan.step(
      "a",
      "printf '\\377\\300\\200\\355\\240\\200 \\303\\251 \\001\\\\\"'; yes x | head -c 10000; exit 1",
    );
    plan.write([{}]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toMatch(/^could not detach: a: \ufffd{6} é {2}\\"x x x/);
    expect(msg.length).toBeLessThan(350);
  });

  test("many long failures still make one JSON document", async () => {
    const plan = new Plan(bench());
    plan.step("a", "yes éé | head -c 10000; exit 1");
    const written = plan.write(Array.from({ length: 40 }, (_, i) => ({ group: String(i) })));
    expect(cniError(await plan.replay()).code).toBe(102);
    expect(readFileSync(plan.file)).toEqual(written);
  });

  test("names that could leave the state directory are refused", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    for (const id of ["../state/c1", "a/b", ".c1", "-c1", "c 1", "é", "x".repeat(300)])
      expect(cniError(await plan.replay({ CNI_CONTAINERID: id })).msg).toMatch(
        /^invalid characters in containerID, or more than 200 characters$/,
      );
    for (const name of ["..", ".", "a/b", "a:b", "a b", "x".repeat(16)])
      expect(cniError(await plan.replay({ CNI_IFNAME: name }))).toMatchObject({ code: 4 });
    for (const env of [{ CNI_IFNAME: "" }, { CNI_CONTAINERID: "" }])
      expect(cniError(await plan.replay(env))).toMatchObject({ code: 4 });
    expect(plan.ran).toEqual([]);
  });

  test("another interface of the sandbox has its own plan", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    expect(cniError(await plan.replay({ CNI_IFNAME: "eth1" })).code).toBe(11);
    expect(plan.ran).toEqual([]);
    expect(existsSync(plan.file)).toBe(true);
  });

  test("the longest names still make a file name", async () => {
    const [containerId, ifName] = ["c".repeat(200), "e".repeat(15)];
    const bytes = encodePlan({ containerId, ifName, steps: [] });
    const file = join(bench().state, `${containerId}@${ifName}.record`);
    writeFileSync(file, bytes, { mode: 0o600 });
    const env = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName };
    expect(await new Plan(bench()).replay(env)).toMatchObject({ code: 0 });
    expect(existsSync(file)).toBe(false);
  });

  test("its steps obey the rules of the DEL that replays it [S-105]", async () => {
    const plan = new Plan(bench());
    const elsewhere = join(bench().dir, "elsewhere");
    mkdirSync(elsewhere);
    bench().plugin("e", `touch ${bench().dir}/escaped`, elsewhere);
    plan.write([
      { type: "e", path: elsewhere, group: "1" },
      { type: "a", env: ["CNI_COMMAND=ADD"], group: "2" },
      { type: "b", env: ["LD_PRELOAD=/x"], group: "3" },
    ]);
    const { code, msg } = cniError(await plan.replay());
    expect(code).toBe(102);
    expect(msg).toMatch(
      /e: directory .*elsewhere of plugin "e" is not trusted: .*; a: CNI_COMMAND=ADD/,
    );
    expect(msg).toMatch(/b: environment entry 1 is not CNI_NAME=VALUE$/);
    expect([plan.ran, existsSync(join(bench().dir, "escaped"))]).toEqual([[], false]);
  });

  test("finds plugins that have moved to the directories of the call", async () => {
    const plan = new Plan(bench());
    plan.write([{ path: "/nonexistent" }]);
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });

  test("a step gets its share of the time that is left, and the others theirs", async () => {
    const plan = new Plan(bench());
    plan.step("b", "sleep 60");
    plan.write([
      { type: "b", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "0" },
    ]);
    const answer = await plan.replay({ PLEXUS_REPLAY_MS: "6000" });
    expect(cniError(answer).msg).toMatch(
      /^could not detach: b: still running after [12]\d{3} ms; killed; b: still running after [12]\d{3} ms; killed$/,
    );
    expect(plan.names).toEqual(["b", "b", "a"]);
    expect(answer.ms).toBeLessThan(20_000);
  });
});

eachBuild("a plan that knows its progress", (bench) => {
  const steps = [
    { type: "c", group: "2" },
    { type: "b", group: "1" },
    { type: "a", group: "0" },
  ];

  test.each([
    [0, []],
    [1, ["a"]],
    [2, ["b", "a"]],
    [3, ["c", "b", "a"]],
  ])("with %i attempted attachments skips the others", async (attempted, names) => {
    const plan = new Plan(bench());
    plan.write(steps, { attempted });
    expect(await plan.replay()).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(names);
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
  });

  test.each(["01234567-89ab-cdef-0123-456789abcdef", "", `${bootId}0`, bootId.slice(1)])(
    "of another boot (%j) is replayed whole",
    async (id) => {
      const plan = new Plan(bench());
      plan.write(steps, { attempted: 0, bootId: id });
      expect(await plan.replay()).toMatchObject({ code: 0 });
      expect(plan.names).toEqual(["c", "b", "a"]);
    },
  );

  /** Writes plans one after the other into the file, as updates are. */
  const writeAll = (plan: Plan, ...updates: Buffer[]): void =>
    plan.writeRaw(Buffer.concat(updates));

  test("counts by its newest update", async () => {
    const plan = new Plan(bench());
    const first = plan.write(steps, { attempted: 0 });
    writeAll(plan, first, plan.write([], { attempted: 3 }), plan.write(steps, { attempted: 2 }));
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["b", "a"]);
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
  });

  test.each<[string, (update: Buffer) => Buffer]>([
    ["cut short", (update) => update.subarray(0, -1)],
    ["cut short in its first frame", (update) => update.subarray(0, 7)],
    ["altered", (update) => update.fill(1, 60, 62)],
    ["zeroed", (update) => update.fill(0)],
    [
      "of another attachment",
      (update) => Buffer.from(update.toString("latin1").replaceAll("c1", "c2"), "latin1"),
    ],
  ])(
    "whose newest update is %s is replayed whole: it is unknown what was tried",
    async (_, spoil) => {
      const plan = new Plan(bench());
      const first = plan.write(steps, { attempted: 0 });
      writeAll(plan, first, spoil(plan.write([], { attempted: 2 })));
      expect(await plan.replay()).toMatchObject({ code: 0 });
      expect(plan.names).toEqual(["c", "b", "a"]);
      expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
    },
  );

  test("with an altered update between whole ones counts by the newest", async () => {
    const plan = new Plan(bench());
    const altered = plan.write(steps, { attempted: 3 }).fill(1, 60, 62);
    const first = plan.write(steps, { attempted: 0 });
    writeAll(plan, first, altered, plan.write(steps, { attempted: 1 }));
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });

  test("of which a step failed is kept with its updates", async () => {
    const plan = new Plan(bench());
    plan.step("a", "exit 1");
    const both = Buffer.concat([
      plan.write(steps, { attempted: 0 }),
      plan.write(steps, { attempted: 1 }),
    ]);
    plan.writeRaw(both);
    expect(cniError(await plan.replay()).code).toBe(102);
    expect(readFileSync(plan.file)).toEqual(both);
  });
});

eachBuild("a plan that somebody else may have written", (bench) => {
  test.each<[string, (plan: Plan) => void]>([
    [
      "a link",
      (plan) => {
        renameSync(plan.file, `${plan.file}.real`);
        symlinkSync(`${plan.file}.real`, plan.file);
      },
    ],
    ["of two links", (plan) => linkSync(plan.file, `${plan.file}.other`)],
    ["another user's", (plan) => chownSync(plan.file, 65534, 65534)],
    ["readable by its group", (plan) => chmodSync(plan.file, 0o640)],
    ["executable by another user's rights", (plan) => chmodSync(plan.file, 0o4600)],
    [
      "a directory",
      (plan) => {
        rmSync(plan.file);
        mkdirSync(plan.file, { mode: 0o600 });
      },
    ],
    [
      "a FIFO",
      (plan) => {
        rmSync(plan.file);
        execFileSync("mkfifo", ["-m", "600", plan.file]);
      },
    ],
  ])("%s: nothing is run, and it is kept [S-105]", async (_, spoil) => {
    const plan = new Plan(bench());
    plan.write([{}]);
    spoil(plan);
    const error = cniError(await plan.replay());
    expect(error.code).toBe(6);
    expect(error.msg).toMatch(
      /it is not a regular file of root's with mode 0600 or 0700 and one link; it is kept/,
    );
    expect([plan.ran, existsSync(plan.file)]).toEqual([[], true]);
  });
});

eachBuild("the mark of a DEL that has begun", (bench) => {
  const started = (plan: Plan): Promise<unknown> =>
    waitUntil("a step runs", () => plan.ran.length > 0);

  test("a replay that fails leaves it; the next one goes by the same plan", async () => {
    const plan = new Plan(bench());
    plan.step("b", "exit 1");
    plan.write([{ type: "b" }]);
    expect(plan.isMarked).toBe(false);
    expect(cniError(await plan.replay()).code).toBe(102);
    expect(plan.isMarked).toBe(true);
    plan.step("b", "");
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(readdirSync(bench().state).sort()).toEqual(["c1@eth0.detached"]);
  });

  test("a shim that is killed in a replay leaves it", async () => {
    const plan = new Plan(bench());
    plan.step("a", "exec sleep 60");
    plan.write([{}]);
    const call = bench().start({ env: { CNI_COMMAND: "DEL" } });
    await started(plan);
    call.child.kill("SIGKILL");
    await call.ended;
    expect(plan.isMarked).toBe(true);
  });

  test("a shim that is killed while it waits for its sandbox leaves it", async () => {
    const plan = new Plan(bench());
    plan.step("a", "exec sleep 60");
    plan.write([{}]);
    const first = bench().start({ env: { CNI_COMMAND: "DEL" } });
    await started(plan);
    chmodSync(plan.file, 0o600);
    const second = bench().start({ env: { CNI_COMMAND: "DEL" } });
    await waitUntil("the record is marked", () => plan.isMarked);
    for (const { child } of [second, first]) child.kill("SIGKILL");
    expect(plan.names).toEqual(["a"]);
  });

  test("a DEL that an engine fails leaves it, and one whose engine is killed has it before its first order", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    let mark = false;
    await bench().engine((engine) => {
      mark = plan.isMarked;
      engine.done(1, "{}");
    });
    expect(await plan.replay()).toMatchObject({ code: 1 });
    expect([mark, plan.isMarked]).toEqual([true, true]);
  });

  test("the undoing of an ADD leaves it when a step fails", async () => {
    const plan = new Plan(bench());
    plan.step("b", "exit 1");
    await bench().engine(async (engine) => {
      plan.write([{ type: "b" }]);
      await engine.exec({ type: "a", path: bench().bin, env: ["CNI_COMMAND=ADD"] });
      engine.socket.destroy();
    });
    expect(cniError(await bench().run()).msg).toContain("could not roll back");
    expect(plan.isMarked).toBe(true);
  });

  test.each(["ADD", "CHECK"])("%s leaves none", async (command) => {
    const plan = new Plan(bench());
    plan.write([{}]);
    await bench().engine((engine) => engine.done());
    expect(await plan.replay({ CNI_COMMAND: command })).toMatchObject({ code: 0 });
    expect(plan.isMarked).toBe(false);
  });

  test.each<[string, (victim: string, file: string) => void]>([
    ["a symbolic link", symlinkSync],
    ["a second name", linkSync],
  ])(
    "%s in the record's place: the file that it leads to keeps its mode [S-106]",
    async (_, make) => {
      const plan = new Plan(bench());
      const victim = join(bench().dir, "victim");
      writeFileSync(victim, "", { mode: 0o600 });
      make(victim, plan.file);
      cniError(await plan.replay());
      expect(statSync(victim).mode & 0o777).toBe(0o600);
    },
  );
});

eachBuild("a damaged plan", (bench) => {
  const expectKept = async (plan: Plan, bytes: Uint8Array): Promise<void> => {
    plan.writeRaw(bytes);
    const error = cniError(await plan.replay());
    expect(error.code).toBe(6);
    expect(error.msg).toBe(
      `could not detach: cannot use the teardown plan ${plan.file}: it is truncated, altered, of another ` +
        "attachment, or of a plan version other than 3; it is kept: start plexusd to detach from the " +
        "record, or detach manually",
    );
    expect(plan.ran).toEqual([]);
    expect(readFileSync(plan.file)).toEqual(Buffer.from(bytes));
  };

  test("cut anywhere: nothing is run, the plan is kept", async () => {
    const plan = new Plan(bench());
    const bytes = plan.write([{}, { type: "b" }]);
    for (let length = 0; length < bytes.length; length += 7)
      await expectKept(plan, bytes.subarray(0, length));
  });

  test("a flipped bit anywhere: nothing is run, the plan is kept", async () => {
    const plan = new Plan(bench());
    const bytes = plan.write([{}]);
    for (let at = 0; at < bytes.length; at += 5) {
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 1;
      plan.writeRaw(flipped);
      expect(cniError(await plan.replay()).code).toBe(6);
      expect(plan.ran).toEqual([]);
    }
  });

  test.each<[string, (plan: Plan, body: Buffer) => Buffer]>([
    ["another container", (plan) => plan.write([{}], { containerId: "c2" })],
    ["another interface", (plan) => plan.write([{}], { ifName: "eth1" })],
    ["an earlier version", (plan) => plan.write([{}], { version: "2" })],
    ["a later version", (plan) => plan.write([{}], { version: "4" })],
    ["a group that is no number", (plan) => plan.write([{ group: "net1" }])],
    ["attempts that are no number", (plan) => plan.write([{}], { attempted: "all" })],
    ["a wrong count", (_, body) => Buffer.concat([body, encodePlanEnd(2, body)])],
    ["a malformed step", (_, body) => withStep(body, FrameType.exec, ["0", "a", "/bin"])],
    ["a netlink step", (_, body) => withStep(body, FrameType.netlink, ["", ""])],
    ["no plan frame", (_, body) => Buffer.concat([body.subarray(60), encodePlanEnd(1, body)])],
  ])("with %s", async (_, make) => {
    const plan = new Plan(bench());
    const good = plan.write([{}]);
    await expectKept(plan, make(plan, good.subarray(0, -encodePlanEnd(1, good).length)));
  });
});

/** A plan of two steps, of which the second is this frame, with the right checksum. */
function withStep(body: Buffer, type: number, fields: FieldValue[]): Buffer {
  const bytes = Buffer.concat([body, encodeFrame(type, fields)]);
  return Buffer.concat([bytes, encodePlanEnd(2, bytes)]);
}
