import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
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
import { bootId, encodeFrame, encodePlanEnd, type FieldValue, FrameType } from "./lab/frames.ts";
import { cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

eachBuild("a DEL from the teardown plan", (bench) => {
  test("runs every step in order, replaces the plan with a tombstone, and then succeeds without steps", async () => {
    const plan = new PlanFile(bench());
    plan.write([
      { type: "c", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "1", env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1"] },
    ]);
    for (let i = 0; i < 3; i++)
      expect(await plan.del()).toMatchObject({ code: 0, stdout: "", stderr: "" });
    const ran = ["c DEL c1 eth0 '' conf", "b DEL c1 eth0 '' conf", "a DEL c1 net1 '' conf"];
    expect(plan.ran).toEqual(ran);
    expect(readdirSync(bench().state)).toEqual(["c1@eth0.detached"]);
    expect(statSync(join(bench().state, "c1@eth0.detached"))).toMatchObject({ size: 0 });
  });

  test.each([
    "a pod's",
    "",
    "/nonexistent/netns",
    "/dev/null",
    "/etc/passwd",
    "/proc/self/ns/mnt",
    "/proc/self/ns/net",
    `/proc/${process.pid}/ns/net`,
  ])("ignores the plan's CNI_NETNS, passes the call's if it is a pod's: %j", async (path) => {
    const plan = new PlanFile(bench());
    plan.write([{ env: ["CNI_COMMAND=DEL", "CNI_NETNS=/proc/self/ns/net"] }, {}]);
    const CNI_NETNS = path === "a pod's" ? bench().netns() : path;
    await plan.del({ CNI_NETNS });
    const passed = path === "a pod's" ? CNI_NETNS : "";
    expect(plan.ran).toEqual(Array(2).fill(`a DEL c1 eth0 '${passed}' conf`));
  });

  test("after a failure, skips the rest of that group, continues with others and keeps the whole plan", async () => {
    const plan = new PlanFile(bench());
    plan.step("b", `echo '{ "code": 7,\n\t"msg": "still busy" }'; exit 1`);
    const written = plan.write([
      { type: "c", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "1" },
      { type: "d", group: "0" },
    ]);
    const error = cniError(await plan.del());
    expect(error.code).toBe(102);
    expect(error.msg).toBe('could not detach: b: { "code": 7,  "msg": "still busy" } ');
    expect(plan.names).toEqual(["c", "b", "d"]);
    expect(readFileSync(plan.path)).toEqual(written);
    expect([plan.isMarked, readdirSync(bench().state)]).toEqual([true, ["c1@eth0.record"]]);

    plan.step("b", "");
    expect(await plan.del()).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["c", "b", "d", "c", "b", "a", "d"]);
    expect(readdirSync(bench().state)).toEqual(["c1@eth0.detached"]);
  });

  test("reports every kind of failure in one line", async () => {
    const plan = new PlanFile(bench());
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
    const { msg } = cniError(await plan.del());
    expect(msg).toBe(
      "could not detach: a: on stderr ; b: it failed without a message; c: killed by signal 9; " +
        `d: still running after 200 ms; killed; e: no plugin "e" in "${bench().bin}"`,
    );
    expect(readFileSync(plan.path)).toEqual(written);
  });

  test("keeps words that containerd treats as success out of its error [S-604]", async () => {
    const plan = new PlanFile(bench());
    const hidden = "not\\nfound: no such\\302\\205file or directory";
    plan.step("a", `printf 'Not Found: No such file or directory: ${hidden}'; exit 1`);
    plan.write([{}]);
    const { msg } = cniError(await plan.del());
    expect(msg).toMatch(/^could not detach: a: /);
    expect(msg).not.toMatch(/not found|no such file or directory/i);
  });

  test("replaces invalid UTF-8 and control characters in plugin output, and shortens it [S-604]", async () => {
    const plan = new PlanFile(bench());
    plan.step(
      "a",
      "printf '\\377\\300\\200\\355\\240\\200 \\303\\251 \\001\\\\\"'; yes x | head -c 10000; exit 1",
    );
    plan.write([{}]);
    const { msg } = cniError(await plan.del());
    expect(msg).toMatch(/^could not detach: a: \ufffd{6} é {2}\\"x x x/);
    expect(msg.length).toBeLessThan(350);
  });

  test("reports many long failures in one JSON document of limited length", async () => {
    const plan = new PlanFile(bench());
    plan.step("a", "yes éé | head -c 10000; exit 1");
    plan.write(Array.from({ length: 40 }, (_, i) => ({ group: String(i) })));
    const { code, msg } = cniError(await plan.del());
    expect(code).toBe(102);
    expect(Buffer.byteLength(msg)).toBeLessThan(5000);
  });

  test("rejects names that could form a path outside the state directory", async () => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    for (const id of ["../state/c1", "a/b", ".c1", "-c1", "c 1", "é", "x".repeat(300)])
      expect(cniError(await plan.del({ CNI_CONTAINERID: id })).msg).toMatch(
        /^invalid characters in containerID, or more than 200 characters$/,
      );
    for (const name of ["..", ".", "a/b", "a:b", "a b", "x".repeat(16)])
      expect(cniError(await plan.del({ CNI_IFNAME: name }))).toMatchObject({ code: 4 });
    const add = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "../x", PLEXUS_WAIT_MS: "20000" };
    for (const env of [{ CNI_IFNAME: "" }, { CNI_CONTAINERID: "" }, add])
      expect(cniError(await plan.del(env))).toMatchObject({ code: 4 });
    expect(plan.ran).toEqual([]);
  });

  test("is executed for an interface name that an ADD may not have", async () => {
    const plan = new PlanFile(bench(), "c1@net%d.record");
    plan.write([{}], { ifName: "net%d" });
    expect((await plan.del({ CNI_IFNAME: "net%d" })).code).toBe(0);
    expect(plan.ran).toHaveLength(1);
  });

  test("does not use the plan of another interface of the sandbox", async () => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    expect(cniError(await plan.del({ CNI_IFNAME: "eth1" })).code).toBe(11);
    expect([plan.ran, existsSync(plan.path)]).toEqual([[], true]);
  });

  test("leaves a record to an engine if another sandbox may have a device of it", async () => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    const mark = join(bench().state, "c1@eth0.engine-only");
    writeFileSync(mark, "");
    const { code, msg } = cniError(await plan.del());
    expect(code).toBe(11);
    expect(msg).toMatch(/^could not detach: another sandbox may have a device of this one/);
    expect([plan.ran, plan.isMarked]).toEqual([[], true]);
    rmSync(mark);
    expect(await plan.del()).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });

  test("does not roll back an ADD if another sandbox may have a device of it", async () => {
    const plan = new PlanFile(bench());
    await bench().engine(async (engine) => {
      plan.write([{ type: "b" }]);
      writeFileSync(join(bench().state, "c1@eth0.engine-only"), "");
      await engine.exec({ type: "a", path: bench().bin, env: ["CNI_COMMAND=ADD"] });
      engine.socket.destroy();
    });
    const { code, msg } = cniError(await bench().run());
    expect(code).toBe(11);
    expect(msg).toContain("could not roll back: another sandbox may have a device of this one");
    expect(plan.names).toEqual(["a"]);
  });

  test("works with the longest container ID and interface name", async () => {
    const [containerId, ifName] = ["c".repeat(200), "e".repeat(15)];
    const plan = new PlanFile(bench(), `${containerId}@${ifName}.record`);
    plan.write([], { containerId, ifName });
    const env = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName };
    expect(await plan.del(env)).toMatchObject({ code: 0 });
    expect(existsSync(plan.path)).toBe(false);
  });

  test("refuses steps that break the rules for orders in a DEL [S-105]", async () => {
    const plan = new PlanFile(bench());
    const elsewhere = join(bench().dir, "elsewhere");
    mkdirSync(elsewhere);
    bench().plugin("e", `touch ${bench().dir}/escaped`, elsewhere);
    plan.write([
      { type: "e", path: elsewhere, group: "1" },
      { type: "a", env: ["CNI_COMMAND=ADD"], group: "2" },
      { type: "b", env: ["LD_PRELOAD=/x"], group: "3" },
    ]);
    const { code, msg } = cniError(await plan.del());
    expect(code).toBe(102);
    expect(msg).toMatch(
      /e: directory .*elsewhere of plugin "e" is not trusted: .*; a: CNI_COMMAND=ADD/,
    );
    expect(msg).toMatch(/b: environment entry 1 is not CNI_NAME=VALUE$/);
    expect([plan.ran, existsSync(join(bench().dir, "escaped"))]).toEqual([[], false]);
  });

  test("divides the remaining time among the steps", async () => {
    const plan = new PlanFile(bench());
    plan.step("b", "sleep 60");
    plan.write([
      { type: "b", group: "2" },
      { type: "b", group: "1" },
      { type: "a", group: "0" },
    ]);
    const answer = await plan.del({ PLEXUS_REPLAY_MS: "6000" });
    expect(cniError(answer).msg).toMatch(
      /^could not detach: b: still running after [12]\d{3} ms; killed; b: still running after [12]\d{3} ms; killed$/,
    );
    expect(plan.names).toEqual(["b", "b", "a"]);
    expect(answer.ms).toBeLessThan(20_000);
  });
});

eachBuild("a plan that counts attempted attachments", (bench) => {
  const steps = [
    { type: "c", group: "2" },
    { type: "b", group: "1" },
    { type: "a", group: "0" },
  ];

  const all = ["c", "b", "a"];
  const otherBoot = "01234567-89ab-cdef-0123-456789abcdef";
  const altered = (update: Buffer): Buffer => update.fill(1, 60, 62);
  const ofAnother = (update: Buffer): Buffer =>
    Buffer.from(update.toString("latin1").replaceAll("c1", "c2"), "latin1");

  test.each<[string, (write: (parts: object) => Buffer) => Buffer[], string[]]>([
    ["with 0 attempted attachments", (write) => [write({ attempted: 0 })], []],
    ["with 1 attempted", (write) => [write({ attempted: 1 })], ["a"]],
    ["with 2 attempted", (write) => [write({ attempted: 2 })], ["b", "a"]],
    ["with all attempted", (write) => [write({ attempted: 3 })], all],
    ["from another boot", (write) => [write({ attempted: 0, bootId: otherBoot })], all],
    ["without a boot ID", (write) => [write({ attempted: 0, bootId: "" })], all],
    ["with a longer boot ID", (write) => [write({ attempted: 0, bootId: `${bootId}0` })], all],
    ["with a shorter boot ID", (write) => [write({ attempted: 0, bootId: bootId.slice(1) })], all],
    ["with several updates", (write) => [0, 3, 2].map((n) => write({ attempted: n })), ["b", "a"]],
    [
      "with an altered update between valid ones",
      (write) => [
        write({ attempted: 0 }),
        altered(write({ attempted: 3 })),
        write({ attempted: 1 }),
      ],
      ["a"],
    ],
  ])("%s replays only the steps that may have been attempted", async (_, updates, names) => {
    const plan = new PlanFile(bench());
    plan.writeRaw(Buffer.concat(updates((parts) => plan.write(steps, parts))));
    expect(await plan.del()).toMatchObject({ code: 0, stdout: "" });
    expect(plan.names).toEqual(names);
    expect(readdirSync(bench().state)).toEqual(["c1@eth0.detached"]);
  });

  test.each<[string, (update: Buffer) => Buffer]>([
    ["truncated", (update) => update.subarray(0, -1)],
    ["truncated in its first frame", (update) => update.subarray(0, 7)],
    ["altered", altered],
    ["zeroed", (update) => update.fill(0)],
    ["for another attachment", ofAnother],
  ])(
    "is replayed in full if its last update is %s: any step may have been attempted",
    async (...row) => {
      const plan = new PlanFile(bench());
      const first = plan.write(steps, { attempted: 0 });
      plan.writeRaw(Buffer.concat([first, row[1](plan.write([], { attempted: 2 }))]));
      expect(await plan.del()).toMatchObject({ code: 0 });
      expect(plan.names).toEqual(all);
      expect(readdirSync(bench().state)).toEqual(["c1@eth0.detached"]);
    },
  );

  test("is kept with its updates if a step fails", async () => {
    const plan = new PlanFile(bench());
    plan.step("a", "exit 1");
    const both = Buffer.concat([
      plan.write(steps, { attempted: 0 }),
      plan.write(steps, { attempted: 1 }),
    ]);
    plan.writeRaw(both);
    expect(cniError(await plan.del()).code).toBe(102);
    expect(readFileSync(plan.path)).toEqual(both);
  });
});

eachBuild("a plan that another user may have written", (bench) => {
  test.each<[string, (plan: PlanFile) => void]>([
    [
      "a symlink",
      (plan) => {
        renameSync(plan.path, `${plan.path}.real`);
        symlinkSync(`${plan.path}.real`, plan.path);
      },
    ],
    ["a file with two hard links", (plan) => linkSync(plan.path, `${plan.path}.other`)],
    ["owned by another user", (plan) => chownSync(plan.path, 65534, 65534)],
    ["readable by its group", (plan) => chmodSync(plan.path, 0o640)],
    ["setuid", (plan) => chmodSync(plan.path, 0o4600)],
    [
      "a directory",
      (plan) => {
        rmSync(plan.path);
        mkdirSync(plan.path, { mode: 0o600 });
      },
    ],
    [
      "a FIFO",
      (plan) => {
        rmSync(plan.path);
        execFileSync("mkfifo", ["-m", "600", plan.path]);
      },
    ],
  ])("is kept and not executed if it is %s [S-105]", async (_, spoil) => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    spoil(plan);
    const error = cniError(await plan.del());
    expect(error.code).toBe(6);
    expect(error.msg).toMatch(
      /it is not a regular file of root's with mode 0600, 0700 or 1600 and one link; it is kept/,
    );
    expect([plan.ran, existsSync(plan.path)]).toEqual([[], true]);
  });
});

eachBuild("the mark of a started DEL", (bench) => {
  test("is set while a DEL replays the plan or waits for the sandbox's lock", async () => {
    const plan = new PlanFile(bench());
    plan.step("a", "exec sleep 60");
    plan.write([{}]);
    const first = bench().start({ env: { CNI_COMMAND: "DEL" } });
    await waitUntil("a step runs", () => plan.ran.length > 0);
    expect(plan.isMarked).toBe(true);
    chmodSync(plan.path, 0o600);
    const second = bench().start({ env: { CNI_COMMAND: "DEL" } });
    await waitUntil("the record is marked", () => plan.isMarked);
    for (const { child } of [second, first]) child.kill("SIGKILL");
    expect(plan.names).toEqual(["a"]);
  });

  test("is set before the engine's first order, and stays if the DEL fails", async () => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    let mark = false;
    await bench().engine((engine) => {
      mark = plan.isMarked;
      engine.done(1, "{}");
    });
    expect(await plan.del()).toMatchObject({ code: 1 });
    expect([mark, plan.isMarked]).toEqual([true, true]);
  });

  test("is not set on a record that was made while stdin was awaited", async () => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    const late = bench().start({ env: { CNI_COMMAND: "DEL" }, holdStdin: true });
    await waitUntil("the first record is marked", () => plan.isMarked);
    // What another DEL and ADD of the container do.
    rmSync(plan.path);
    plan.write([{}]);
    await bench().engine((engine) => engine.done());
    late.child.stdin?.end();
    expect(await late.ended).toMatchObject({ code: 0 });
    expect(plan.isMarked).toBe(false);
  });

  test("is set if a step fails in the rollback of an ADD", async () => {
    const plan = new PlanFile(bench());
    plan.step("b", "exit 1");
    await bench().engine(async (engine) => {
      plan.write([{ type: "b" }]);
      await engine.exec({ type: "a", path: bench().bin, env: ["CNI_COMMAND=ADD"] });
      engine.socket.destroy();
    });
    expect(cniError(await bench().run()).msg).toContain("could not roll back");
    expect(plan.isMarked).toBe(true);
  });

  test.each(["ADD", "CHECK"])("is not set by %s", async (command) => {
    const plan = new PlanFile(bench());
    plan.write([{}]);
    await bench().engine((engine) => engine.done());
    expect(await plan.del({ CNI_COMMAND: command })).toMatchObject({ code: 0 });
    expect(plan.isMarked).toBe(false);
  });
});

eachBuild("a link that another user has created in the state directory", (bench) => {
  /** A file outside of the state directory, which must not change. */
  const victim = (): string => {
    const path = join(bench().dir, "shadow");
    writeFileSync(path, "root:*:::::::\n", { mode: 0o600 });
    return path;
  };
  const expectUnchanged = (path: string): void => {
    expect(readFileSync(path, "utf8")).toBe("root:*:::::::\n");
    expect(statSync(path).mode & 0o777).toBe(0o600);
  };

  test.each<[string, (path: string, file: string) => void]>([
    ["a symlink", symlinkSync],
    ["a hard link", linkSync],
  ])("in place of the record (%s) does not change its target [S-106]", async (_, make) => {
    const plan = new PlanFile(bench());
    const path = victim();
    make(path, plan.path);
    cniError(await plan.del());
    expectUnchanged(path);
  });

  test("in place of the tombstone is replaced, without an effect on its target [S-106]", async () => {
    const plan = new PlanFile(bench());
    const path = victim();
    const tombstone = join(bench().state, "c1@eth0.detached");
    plan.write([{}]);
    symlinkSync(path, tombstone);
    expect(await plan.del()).toMatchObject({ code: 0 });
    expectUnchanged(path);
    expect(lstatSync(tombstone).isFile()).toBe(true);
  });

  test.each([
    ["in place of the plan", ".record"],
    ["in place of the tombstone", ".detached"],
  ])("%s fails a DEL if it is created during the replay [S-106]", async (_, suffix) => {
    const plan = new PlanFile(bench());
    const path = victim();
    plan.step("a", `rm ${plan.path}; ln -s ${path} ${plan.path.replace(".record", suffix)}`);
    plan.write([{}]);
    const error = cniError(await plan.del());
    expect(error.code).toBe(5);
    expect(error.msg).toMatch(/everything is detached, but/);
    expectUnchanged(path);
  });

  test("in place of the sandbox's lock fails the call, which creates no file [S-106]", async () => {
    const target = join(bench().dir, "made");
    symlinkSync(target, join(bench().state, "c1.lock"));
    expect(cniError(await bench().run()).code).toBe(5);
    expect(existsSync(target)).toBe(false);
  });
});

eachBuild("a damaged plan", (bench) => {
  const expectKept = async (plan: PlanFile, bytes: Uint8Array): Promise<void> => {
    plan.writeRaw(bytes);
    const error = cniError(await plan.del());
    expect(error.code).toBe(6);
    expect(error.msg).toBe(
      `could not detach: cannot use the teardown plan ${plan.path}: it is truncated, altered, of another ` +
        "attachment, or of a plan version other than 3; it is kept: start plexusd to detach from the " +
        "record, or detach manually",
    );
    expect(plan.ran).toEqual([]);
    expect(readFileSync(plan.path)).toEqual(Buffer.from(bytes));
  };

  // The shim's unit tests have every length and every bit.
  test.each<[string, (bytes: Buffer) => Buffer]>([
    ["is empty", (bytes) => bytes.subarray(0, 0)],
    ["is truncated", (bytes) => bytes.subarray(0, bytes.length / 2)],
    ["lacks its last byte", (bytes) => bytes.subarray(0, -1)],
    ["has another bit", (bytes) => bytes.map((byte, at) => byte ^ Number(at === 90)) as Buffer],
  ])("is kept and not executed if it %s", async (_, damage) => {
    const plan = new PlanFile(bench());
    await expectKept(plan, damage(plan.write([{}, { type: "b" }])));
  });

  test.each<[string, (plan: PlanFile, body: Buffer) => Buffer]>([
    ["another container", (plan) => plan.write([{}], { containerId: "c2" })],
    ["another interface", (plan) => plan.write([{}], { ifName: "eth1" })],
    ["an earlier version", (plan) => plan.write([{}], { version: "2" })],
    ["a later version", (plan) => plan.write([{}], { version: "4" })],
    [
      "a last update of a later version",
      (plan) => {
        const good = plan.write([{}]);
        return Buffer.concat([good, plan.write([{ type: "b" }], { version: "4" })]);
      },
    ],
    ["a non-numeric group", (plan) => plan.write([{ group: "net1" }])],
    ["a non-numeric count of attempts", (plan) => plan.write([{}], { attempted: "all" })],
    ["a wrong count of steps", (_, body) => Buffer.concat([body, encodePlanEnd(2, body)])],
    ["a malformed step", (_, body) => withStep(body, FrameType.exec, ["0", "a", "/bin"])],
    ["a netlink step", (_, body) => withStep(body, FrameType.netlink, ["", ""])],
    ["no plan frame", (_, body) => Buffer.concat([body.subarray(60), encodePlanEnd(1, body)])],
  ])("is kept and not executed if it has %s", async (_, make) => {
    const plan = new PlanFile(bench());
    const good = plan.write([{}]);
    await expectKept(plan, make(plan, good.subarray(0, -encodePlanEnd(1, good).length)));
  });
});

/** A plan of two steps with a valid checksum; the second step is this frame. */
function withStep(body: Buffer, type: number, fields: FieldValue[]): Buffer {
  const bytes = Buffer.concat([body, encodeFrame(type, fields)]);
  return Buffer.concat([bytes, encodePlanEnd(2, bytes)]);
}
