// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { chmodSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { type Bench, cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** The DEL of `c1`, from its record or without one. */
function planOf(from: "record" | "default.plan", bench: Bench): PlanFile {
  if (from === "record") {
    const plan = new PlanFile(bench);
    plan.write([{}]);
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
  { containerId = "second", ifName = "eth0" } = {},
): PlanFile {
  const plan = new PlanFile(bench, `${containerId}@${ifName}.record`);
  plan.write([{ env: ["CNI_COMMAND=DEL", `CNI_NETNS=${netns}`] }], { containerId, ifName });
  return plan;
}

function linkTo(path: string): string {
  symlinkSync(path, `${path}.link`);
  return `${path}.link`;
}

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
      expect(msg).toMatch(/another sandbox is recorded with its network namespace/);
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
    ["a record that is damaged", (other) => other.writeRaw(Buffer.from("record"))],
    ["no record", ({ path }) => rmSync(path)],
  ])("detaches in the namespace of %s", async (_, change) => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    change(record(bench(), CNI_NETNS));
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual([`a DEL c1 eth0 '${CNI_NETNS}' conf`]);
  });

  test("detaches beside other namespaces, files, and interfaces of its container", async () => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    for (const name of ["second@eth0", "second.record"])
      writeFileSync(join(bench().state, name), "");
    record(bench(), bench().netns());
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

  test("that is repeated succeeds beside another sandbox", async () => {
    const CNI_NETNS = bench().netns();
    const plan = planOf("record", bench());
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    record(bench(), CNI_NETNS);
    expect(await plan.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(plan.names).toEqual(["a"]);
  });
});
