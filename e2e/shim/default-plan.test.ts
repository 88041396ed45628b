import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ExecOrder } from "./lab/frames.ts";
import { type Answer, type Bench, cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** A node without plexusd, but with its default.plan: the steps of the default network's DEL. */
class Node extends PlanFile {
  readonly #multus: string;

  constructor(bench: Bench) {
    super(bench, "default.plan");
    this.#multus = join(bench.dir, "multus");
    this.writePlan({ type: "b" }, { type: "a" });
  }

  writePlan(...steps: Partial<ExecOrder>[]): void {
    this.write(steps, { containerId: "", ifName: "", attempted: 1, bootId: "" });
  }

  /** Creates Multus's file for this container. */
  multusKnows(name: string): void {
    mkdirSync(this.#multus, { recursive: true });
    writeFileSync(join(this.#multus, name), "[]");
  }

  override del(env: Record<string, string> = {}): Promise<Answer> {
    return super.del({ CNI_ARGS: "A=b", PLEXUS_MULTUS_DIR: this.#multus, ...env });
  }
}

/** Makes links in a network namespace. */
function addLinks(netns: string, ...names: string[]): void {
  for (const name of names)
    execFileSync("nsenter", [`--net=${netns}`, "ip", "link", "add", name, "type", "bridge"]);
}

eachBuild("a DEL from default.plan", (bench) => {
  const calls = (netns: string) =>
    ["b", "a"].map((name) => `${name} DEL c1 eth0 '${netns}' conf A=b`);

  test("runs the default network's DEL for its own container, and again if it is repeated", async () => {
    const node = new Node(bench());
    const CNI_NETNS = bench().netns();
    addLinks(CNI_NETNS, "eth0");
    for (let i = 0; i < 2; i++)
      expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(node.ran).toEqual([...calls(CNI_NETNS), ...calls(CNI_NETNS)]);
    expect(readdirSync(bench().state)).toEqual(["default.plan"]);
  });

  test.each([
    ["there is none", ""],
    ["the namespace is gone", "/nonexistent"],
    ["it is the runtime's own", "/proc/self/ns/net"],
  ])("passes on no CNI_NETNS if %s", async (_, CNI_NETNS) => {
    const node = new Node(bench());
    expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(node.ran).toEqual(calls(""));
  });

  test("ignores interfaces that the kernel creates in every namespace", async () => {
    const node = new Node(bench());
    const CNI_NETNS = bench().netns();
    addLinks(CNI_NETNS, "sit0", "eth0", "ip6gre0");
    expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0 });
  });

  const further = "its network namespace has further interfaces";
  const unusable = "there is no usable default.plan";

  test.each<[string, (node: Node, netns: string) => void, string]>([
    ["a second interface", (_, netns) => addLinks(netns, "eth0", "net1"), further],
    [
      "an interface whose name is a prefix of eth0",
      (_, netns) => addLinks(netns, "eth0", "eth"),
      further,
    ],
    ["a file of Multus for c1", (node) => node.multusKnows("c1"), "Multus has a file of it"],
    ["no default.plan", (node) => rmSync(node.path), unusable],
    ["a container's plan instead", (node) => node.write([{}]), unusable],
    ["a plan that its group can read [S-105]", (node) => chmodSync(node.path, 0o644), unusable],
    ["a truncated plan", (node) => truncateSync(node.path, 100), unusable],
  ])("fails and leaves the decision to plexusd if there is %s", async (_, change, doubt) => {
    const node = new Node(bench());
    const CNI_NETNS = bench().netns();
    change(node, CNI_NETNS);
    expect(cniError(await node.del({ CNI_NETNS }))).toMatchObject({
      code: 11,
      msg:
        "could not detach: there is no record of this sandbox, and only plexusd can tell what to " +
        `detach, as ${doubt} (it does not exist)`,
    });
    expect(node.ran).toEqual([]);
  });

  test("ignores a file of Multus for another container", async () => {
    const node = new Node(bench());
    node.multusKnows("c2");
    expect(await node.del()).toMatchObject({ code: 0 });
  });

  test("looks for a file of Multus: where none can be, there is none; where it cannot look, there may be", async () => {
    const node = new Node(bench());
    expect(await node.del({ PLEXUS_MULTUS_DIR: "/etc/passwd" })).toMatchObject({ code: 0 });
    const loop = join(bench().dir, "loop");
    symlinkSync(loop, loop);
    const error = cniError(await node.del({ PLEXUS_MULTUS_DIR: loop }));
    expect(error.msg).toContain("Multus has a file of it");
  });

  test("fails if a step fails or breaks the rules, and can be repeated [S-105]", async () => {
    const node = new Node(bench());
    node.step("b", "echo busy; exit 1");
    const error = { code: 102, msg: "could not detach: b: busy " };
    expect(cniError(await node.del())).toMatchObject(error);
    node.writePlan({ type: "d", env: ["CNI_COMMAND=ADD"] });
    expect(cniError(await node.del()).msg).toContain("CNI_COMMAND=ADD cannot be part of DEL");
    node.writePlan({ type: "a" });
    expect(await node.del()).toMatchObject({ code: 0 });
    expect(node.names).toEqual(["b", "a"]);
  });

  test("is skipped if the sandbox has a record or a tombstone", async () => {
    const node = new Node(bench());
    const record = join(bench().state, "c1@eth0.record");
    writeFileSync(record, "damaged", { mode: 0o600 });
    expect(cniError(await node.del()).code).toBe(6);
    renameSync(record, join(bench().state, "c1@eth0.detached"));
    expect(await node.del()).toMatchObject({ code: 0 });
    expect(node.ran).toEqual([]);
  });

  test.each(["/etc/passwd", "/etc/no-such-file"])(
    "does not depend on what a link in place of the tombstone leads to: %s [S-110]",
    async (target) => {
      const node = new Node(bench());
      symlinkSync(target, join(bench().state, "c1@eth0.detached"));
      expect(await node.del()).toMatchObject({ code: 0 });
      expect(node.ran).toEqual([]);
    },
  );

  test.each(["ADD", "CHECK", "GC", "STATUS"])("%s ignores default.plan", async (CNI_COMMAND) => {
    const node = new Node(bench());
    expect((await node.del({ CNI_COMMAND })).code).toBe(1);
    expect(node.ran).toEqual([]);
  });
});
