// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ExecOrder, encodePlan } from "./lab/frames.ts";
import { type Answer, type Bench, cniError, eachBuild } from "./lab/harness.ts";

/** A node whose plexusd left the plan of the default network's DEL, and then went. */
class Node {
  readonly #bench: Bench;
  readonly #multus: string;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.#multus = join(bench.dir, "multus");
    for (const name of ["first", "second"]) this.step(name, "");
    this.write([{ type: "second" }, { type: "first" }]);
  }

  /** Makes a plugin that notes what it is called with and then does what the script says. */
  step(name: string, script: string): void {
    const variables = "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME '$CNI_NETNS' $CNI_ARGS $(cat)";
    this.#bench.plugin(name, `echo "${name} ${variables}" >>${this.#bench.dir}/ran\n${script}`);
  }

  get file(): string {
    return join(this.#bench.state, "default.plan");
  }

  write(steps: Partial<ExecOrder>[], key = { containerId: "", ifName: "" }): void {
    const own = { type: "first", path: this.#bench.bin, stdin: "conf", env: ["CNI_COMMAND=DEL"] };
    const plan = { ...key, attempted: 1, bootId: "", steps: steps.map((s) => ({ ...own, ...s })) };
    writeFileSync(this.file, encodePlan(plan), { mode: 0o600 });
  }

  /** Has Multus's file of this container on the node. */
  multusKnows(name: string): void {
    mkdirSync(this.#multus, { recursive: true });
    writeFileSync(join(this.#multus, name), "[]");
  }

  del(env: Record<string, string> = {}): Promise<Answer> {
    const own = { CNI_COMMAND: "DEL", CNI_ARGS: "A=b", PLEXUS_MULTUS_DIR: this.#multus };
    return this.#bench.run({ env: { ...own, ...env } });
  }

  get ran(): string[] {
    const file = join(this.#bench.dir, "ran");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  }
}

/** Makes links in a network namespace. */
function addLinks(netns: string, ...names: string[]): void {
  for (const name of names)
    execFileSync("nsenter", [`--net=${netns}`, "ip", "link", "add", name, "type", "bridge"]);
}

eachBuild("a DEL without record and plexusd", (bench) => {
  const calls = (netns: string) =>
    ["second", "first"].map((name) => `${name} DEL c1 eth0 '${netns}' A=b conf`);

  test("runs the default network's DEL for its own container, as often as it is repeated", async () => {
    const node = new Node(bench());
    const CNI_NETNS = bench().netns();
    addLinks(CNI_NETNS, "eth0");
    for (let i = 0; i < 2; i++)
      expect(await node.del({ CNI_NETNS })).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(node.ran).toEqual([...calls(CNI_NETNS), ...calls(CNI_NETNS)]);
    expect(readdirSync(bench().state).sort()).toEqual(["default.plan"]);
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

  test.each<[string, (node: Node, netns: string) => void, string]>([
    [
      "further interfaces",
      (_, netns) => addLinks(netns, "eth0", "net1"),
      "its network namespace has further interfaces",
    ],
    [
      "an interface whose name is a part of the first's",
      (_, netns) => addLinks(netns, "eth0", "eth"),
      "its network namespace has further interfaces",
    ],
    ["a file of Multus", (node) => node.multusKnows("c1"), "Multus has a file of it"],
    [
      "a plan of a container",
      (node) => node.write([{}], { containerId: "c1", ifName: "eth0" }),
      "there is no usable default.plan",
    ],
    [
      "a plan that another user may read [S-105]",
      (node) => chmodSync(node.file, 0o644),
      "there is no usable default.plan",
    ],
    ["a plan that is cut short", (node) => cut(node.file), "there is no usable default.plan"],
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

  test("a step that fails fails the DEL, which can be repeated", async () => {
    const node = new Node(bench());
    node.step("second", "echo busy; exit 1");
    expect(cniError(await node.del())).toMatchObject({
      code: 102,
      msg: "could not detach: second: busy ",
    });
    node.step("second", "");
    expect(await node.del()).toMatchObject({ code: 0 });
  });

  test("its steps obey the rules of the DEL [S-105]", async () => {
    const node = new Node(bench());
    node.write([{ env: ["CNI_COMMAND=ADD"] }]);
    expect(cniError(await node.del()).msg).toContain("CNI_COMMAND=ADD cannot be part of DEL");
    expect(node.ran).toEqual([]);
  });

  test("a tombstone or a record of the sandbox comes before it", async () => {
    const node = new Node(bench());
    const record = join(bench().state, "c1@eth0.record");
    writeFileSync(record, "damaged", { mode: 0o600 });
    expect(cniError(await node.del()).code).toBe(6);
    execFileSync("mv", [record, join(bench().state, "c1@eth0.detached")]);
    expect(await node.del()).toMatchObject({ code: 0 });
    expect(node.ran).toEqual([]);
  });

  test.each(["ADD", "CHECK", "GC", "STATUS"])("%s does not use it", async (CNI_COMMAND) => {
    const node = new Node(bench());
    expect((await node.del({ CNI_COMMAND })).code).toBe(1);
    expect(node.ran).toEqual([]);
  });
});

function cut(file: string): void {
  writeFileSync(file, readFileSync(file).subarray(0, -1));
}
