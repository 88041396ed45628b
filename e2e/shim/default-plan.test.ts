// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ExecOrder } from "./lab/frames.ts";
import { type Answer, type Bench, cniError, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** A node whose plexusd left the plan of the default network's DEL, and then went. */
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

  /** Has Multus's file of this container on the node. */
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

eachBuild("a DEL without record and plexusd", (bench) => {
  const calls = (netns: string) =>
    ["b", "a"].map((name) => `${name} DEL c1 eth0 '${netns}' conf A=b`);

  test("runs the default network's DEL for its own container, as often as it is repeated", async () => {
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
    ["it is gone", "/nonexistent"],
    ["it is the runtime's own", "/proc/self/ns/net"],
  ])("passes no namespace on where %s", async (_, CNI_NETNS) => {
    const node = new Node(bench());
    expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0 });
    expect(node.ran).toEqual(calls(""));
  });

  test("looks past links that the kernel makes in every namespace", async () => {
    const node = new Node(bench());
    const CNI_NETNS = bench().netns();
    addLinks(CNI_NETNS, "sit0", "eth0", "ip6gre0");
    expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0 });
  });

  const further = "its network namespace has further interfaces";
  const unusable = "there is no usable default.plan";

  test.each<[string, (node: Node, netns: string) => void, string]>([
    ["further interfaces", (_, netns) => addLinks(netns, "eth0", "net1"), further],
    [
      "one whose name is a part of the first's",
      (_, netns) => addLinks(netns, "eth0", "eth"),
      further,
    ],
    ["a file of Multus", (node) => node.multusKnows("c1"), "Multus has a file of it"],
    ["no plan", (node) => rmSync(node.path), unusable],
    ["a plan of a container", (node) => node.write([{}]), unusable],
    ["a plan that another user may read [S-105]", (node) => chmodSync(node.path, 0o644), unusable],
    ["a plan that is cut short", (node) => truncateSync(node.path, 100), unusable],
  ])("leaves the decision to plexusd where there is %s", async (_, change, doubt) => {
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

  test("a file of Multus for another container does not count", async () => {
    const node = new Node(bench());
    node.multusKnows("c2");
    expect(await node.del()).toMatchObject({ code: 0 });
  });

  test("a step that fails, or breaks the rules, fails the DEL, which can be repeated [S-105]", async () => {
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

  test("a tombstone or a record of the sandbox comes before it", async () => {
    const node = new Node(bench());
    const record = join(bench().state, "c1@eth0.record");
    writeFileSync(record, "damaged", { mode: 0o600 });
    expect(cniError(await node.del()).code).toBe(6);
    renameSync(record, join(bench().state, "c1@eth0.detached"));
    expect(await node.del()).toMatchObject({ code: 0 });
    expect(node.ran).toEqual([]);
  });

  test.each(["ADD", "CHECK", "GC", "STATUS"])("%s does not use it", async (CNI_COMMAND) => {
    const node = new Node(bench());
    expect((await node.del({ CNI_COMMAND })).code).toBe(1);
    expect(node.ran).toEqual([]);
  });
});
