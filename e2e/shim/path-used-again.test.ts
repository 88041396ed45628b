import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { type Bench, cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** The DEL of `c1`, from its record or without one. */
function planOf(from: "record" | "default.plan", bench: Bench, netns = "/elsewhere"): PlanFile {
  if (from === "record") {
    const plan = new PlanFile(bench);
    plan.write([{ env: ["CNI_COMMAND=DEL", `CNI_NETNS=${netns}`] }]);
    return plan;
  }
  const plan = new PlanFile(bench, "default.plan");
  plan.write([{}], { containerId: "", ifName: "", attempted: 1, bootId: "" });
  return plan;
}

/** Records a sandbox that runs in a namespace. */
function record(
  bench: Bench,
  netns: string,
  { containerId = second.containerId, ifName = second.ifName } = {},
): PlanFile {
  const plan = new PlanFile(bench, `${containerId}@${ifName}.record`);
  plan.write([{ env: ["CNI_COMMAND=DEL", `CNI_NETNS=${netns}`] }], { containerId, ifName });
  return plan;
}

function linkTo(path: string, name = "link"): string {
  const link = `${path}.${name}`;
  symlinkSync(path, link);
  return link;
}

const second = { containerId: "second", ifName: "eth0" };

const itself = (path: string): string => path;

eachBuild("a DEL without an engine", (bench) => {
  test.each([
    { from: "record", own: itself, other: itself },
    { from: "default.plan", own: itself, other: itself },
    { from: "record", own: itself, other: linkTo },
    { from: "record", own: linkTo, other: itself },
  ] as const)(
    "of a $from leaves a namespace with which another sandbox is recorded to an engine (%#)",
    async ({ from, own, other }) => {
      const netns = bench().netns();
      const CNI_NETNS = own(netns);
      const plan = planOf(from, bench());
      const second = record(bench(), other(netns));
      const { code, msg } = cniError(await plan.del({ CNI_NETNS }));
      expect(code).toBe(11);
      expect(msg).toContain(
        `the sandbox of ${second.path} may have its network namespace, and only`,
      );
      expect([plan.ran, second.isMarked]).toEqual([[], false]);
      // The other one's DEL ends that.
      expect(await second.del({ CNI_CONTAINERID: "second", CNI_NETNS: netns })).toMatchObject({
        code: 0,
      });
      expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
      expect(plan.ran.at(-1)).toBe(`a DEL c1 eth0 '${CNI_NETNS}' conf`);
    },
  );

  test.each<[string, (other: PlanFile) => void]>([
    ["a sandbox whose DEL has begun", ({ path }) => chmodSync(path, 0o1600)],
    [
      "a damaged record whose DEL has begun",
      (other) => {
        other.writeRaw(Buffer.from("record"));
        chmodSync(other.path, 0o1600);
      },
    ],
    ["no record", ({ path }) => rmSync(path)],
  ])("detaches in the namespace of %s", async (_, change) => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    change(record(bench(), CNI_NETNS));
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual([`a DEL c1 eth0 '${CNI_NETNS}' conf`]);
  });

  const doubts: [string, (other: PlanFile) => void][] = [
    ["damaged", (other) => other.writeRaw(Buffer.from("record"))],
    ["empty", (other) => other.writeRaw(Buffer.alloc(0))],
    ["of a later release", (other) => other.write([{}], { ...second, version: "4" })],
    ["of another sandbox", (other) => other.write([{}])],
    ["a file that others can read", ({ path }) => chmodSync(path, 0o644)],
    ["another user's", ({ path }) => chownSync(path, 1, 1)],
    ["a file with two names", ({ path }) => linkSync(path, `${path}.link`)],
    [
      "a link to it",
      ({ path }) => {
        renameSync(path, `${path}.file`);
        symlinkSync(`${path}.file`, path);
      },
    ],
    [
      "a directory",
      ({ path }) => {
        rmSync(path);
        mkdirSync(path);
      },
    ],
  ];

  test.each(doubts)(
    "leaves the namespace to an engine beside a record that is %s",
    async (_, change) => {
      const CNI_NETNS = bench().netns();
      const plan = planOf("record", bench());
      const other = record(bench(), CNI_NETNS);
      change(other);
      const { code, msg } = cniError(await plan.del({ CNI_NETNS }));
      expect(code).toBe(11);
      expect(msg).toContain(`the sandbox of ${other.path} may have its network namespace`);
      expect(plan.ran).toEqual([]);
    },
  );

  const uuid = "0b6bb8b5-4d5a-4c5e-9a64-7d3b0a1c2e3f";

  test.each([
    { from: "record", name: uuid, code: 0 },
    { from: "default.plan", name: uuid, code: 1 },
    { from: "record", name: uuid.replace("-", "a"), code: 1 },
    { from: "record", name: uuid.replace("b", "x"), code: 1 },
    { from: "record", name: uuid.slice(1), code: 1 },
  ] as const)("of a $from at $name ends with $code beside a damaged record", async (scene) => {
    const CNI_NETNS = linkTo(bench().netns(), scene.name);
    const plan = planOf(scene.from, bench(), CNI_NETNS);
    record(bench(), CNI_NETNS).writeRaw(Buffer.alloc(0));
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: scene.code });
  });

  test("tells an engine the records that may be in a namespace", async () => {
    const [netns, other] = [bench().netns(), bench().netns()];
    const begun = (plan: PlanFile): void => chmodSync(plan.path, 0o1600);
    begun(record(bench(), netns, { containerId: "c1" }));
    begun(record(bench(), netns, { containerId: "over" }));
    record(bench(), linkTo(netns));
    record(bench(), netns, { containerId: "second", ifName: "a@b" });
    record(bench(), other, { containerId: "elsewhere" });
    record(bench(), "/nowhere", { containerId: "gone" });
    record(bench(), other, { containerId: "empty" }).writeRaw(Buffer.alloc(0));
    for (const name of ["_@eth0.record", "second.record", "x@eth0.detached"])
      writeFileSync(join(bench().state, name), "");
    const asked: string[][] = [];
    const server = await bench().engine(async (engine) => {
      for (const path of [
        netns,
        `${dirname(netns)}//./${basename(netns)}`,
        "/nowhere",
        "/etc/passwd",
        "",
      ])
        asked.push(await engine.occupants(path));
      engine.done();
    });
    expect(await bench().run({ env: { CNI_COMMAND: "DEL", CNI_NETNS: netns } })).toMatchObject({
      code: 0,
    });
    server.close();
    const there = ["c1@eth0", "empty@eth0", "second@a@b", "second@eth0"];
    const none = ["empty@eth0"];
    expect(asked).toEqual([there, there, ["empty@eth0", "gone@eth0"], none, none]);
  });

  test("detaches beside other namespaces, files, and interfaces of its container", async () => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    for (const name of ["second@eth0", "second.record"])
      writeFileSync(join(bench().state, name), "");
    chmodSync(record(bench(), bench().netns()).path, 0o644);
    record(bench(), CNI_NETNS, { containerId: "c1", ifName: "eth1" });
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
  });

  test("detaches without the namespace if nothing is at the path any more", async () => {
    const CNI_NETNS = join(bench().dir, "gone");
    const plan = planOf("record", bench());
    record(bench(), CNI_NETNS);
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual(["a DEL c1 eth0 '' conf"]);
  });

  test("detaches without the namespace of a process, which no record keeps from that", async () => {
    const child = spawn("unshare", ["-n", "sleep", "60"]);
    onTestFinished(() => void child.kill("SIGKILL"));
    const CNI_NETNS = `/proc/${child.pid}/ns/net`;
    const own = readlinkSync("/proc/self/ns/net");
    await waitUntil("it has a namespace", () => readlinkSync(CNI_NETNS) !== own || undefined);
    const plan = planOf("record", bench());
    record(bench(), CNI_NETNS);
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual(["a DEL c1 eth0 '' conf"]);
  });

  test("that rolls back an ADD has its namespace, as the runtime has just made that", async () => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    record(bench(), CNI_NETNS);
    await bench().engine(async (engine) => {
      await engine.exec({ type: "a", path: bench().bin, env: ["CNI_COMMAND=ADD"] });
      engine.socket.destroy();
    });
    expect(cniError(await bench().run({ env: { CNI_NETNS } })).msg).toContain("rolled back");
    expect(plan.ran.at(-1)).toBe(`a DEL c1 eth0 '${CNI_NETNS}' conf`);
  });

  test.each([
    { at: "another namespace", isElsewhere: true },
    { at: "a path where nothing is", isElsewhere: true },
    { at: "no path", isElsewhere: false },
    { at: "a link to it", isElsewhere: false },
    { at: "another namespace, and its own is gone", isElsewhere: false },
  ])(
    "at $at leaves a sandbox elsewhere to an engine: $isElsewhere",
    async ({ at, isElsewhere }) => {
      const own = at.endsWith("is gone") ? join(bench().dir, "gone") : bench().netns();
      const plan = planOf("record", bench(), own);
      const paths: Record<string, string> = {
        "a path where nothing is": join(bench().dir, "nothing"),
        "no path": "",
        "a link to it": linkTo(own),
      };
      const CNI_NETNS = paths[at] ?? bench().netns();
      const del = await plan.del({ CNI_NETNS });
      expect(del.code).toBe(isElsewhere ? 1 : 0);
      expect(plan.names).toEqual(isElsewhere ? [] : ["a"]);
      if (!isElsewhere) return;
      const why = `its sandbox may run in another network namespace than CNI_NETNS=${CNI_NETNS}, and only`;
      expect(cniError(del)).toMatchObject({ code: 11, msg: expect.stringContaining(why) });
      expect(plan.isMarked).toBe(false);
    },
  );

  test("that is repeated succeeds beside another sandbox", async () => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    record(bench(), CNI_NETNS);
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });
});
