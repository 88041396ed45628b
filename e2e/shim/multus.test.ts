// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Bench, eachBuild } from "./harness.ts";

const { EPERM, EISDIR } = constants.errno;

/** A node on which Multus attached two containers. */
class MultusNode {
  readonly #bench: Bench;
  readonly dir: string;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.dir = join(bench.dir, "multus");
    mkdirSync(join(this.dir, "results"), { recursive: true });
    for (const name of [
      "c1",
      "c2",
      "results/main-c1-eth0",
      "results/a-c1-net1",
      "results/a-c2-net1",
    ])
      writeFileSync(join(this.dir, name), "");
  }

  has(name: string): boolean {
    return existsSync(join(this.dir, name));
  }

  /** Has one call of this command carry one order. */
  async forget(
    CNI_COMMAND: string,
    ...names: string[]
  ): Promise<{ errno: number; message: string }> {
    let answer = { errno: -1, message: "" };
    const server = await this.#bench.engine(async (engine) => {
      answer = await engine.forget(...names);
      engine.done();
    });
    const env = { CNI_COMMAND, PLEXUS_MULTUS_DIR: this.dir };
    expect(await this.#bench.run({ env })).toMatchObject({ code: 0 });
    server.close();
    return answer;
  }
}

eachBuild("what Multus keeps", (bench) => {
  test.each(["DEL", "GC", "STATUS"])(
    "%s may have a container's files removed [S-117]",
    async (command) => {
      const node = new MultusNode(bench());
      const names = ["main-c1-eth0", "a-c1-net1", "gone-c1-net2"];
      expect(await node.forget(command, "c1", ...names)).toEqual({ errno: 0, message: "" });
      expect(
        ["c1", "results/main-c1-eth0", "results/a-c1-net1"].filter((n) => node.has(n)),
      ).toEqual([]);
      expect(node.has("c2") && node.has("results/a-c2-net1")).toBe(true);
      expect(await node.forget(command, "c1", ...names)).toEqual({ errno: 0, message: "" });
    },
  );

  test.each(["ADD", "CHECK"])("%s may not [S-118]", async (command) => {
    const node = new MultusNode(bench());
    expect(await node.forget(command, "c1")).toMatchObject({ errno: EPERM });
    expect(node.has("c1")).toBe(true);
  });

  test.each([
    ["", "main-c1-eth0"],
    ["..", "main-..-eth0"],
    ["results/a-c2-net1"],
    ["c1", "a-c2-net1"],
    ["c1", "../c2-c1-x"],
    ["c1", "main-c1-eth0", "x"],
    ["x".repeat(201)],
  ])("nothing but what belongs to one container is removed: %j %j [S-118]", async (...names) => {
    const node = new MultusNode(bench());
    writeFileSync(join(node.dir, "c2-c1-x"), "");
    expect(await node.forget("DEL", ...names)).toMatchObject({ errno: EPERM });
    const all = ["c1", "c2", "c2-c1-x", "results/main-c1-eth0", "results/a-c2-net1"];
    expect(all.filter((name) => !node.has(name))).toEqual([]);
  });

  test("a link is removed, not what it leads to; a directory is an error [S-118]", async () => {
    const node = new MultusNode(bench());
    symlinkSync(join(node.dir, "c2"), join(node.dir, "link"));
    expect(await node.forget("DEL", "link")).toMatchObject({ errno: 0 });
    expect(node.has("link") || !node.has("c2")).toBe(false);
    const { errno, message } = await node.forget("DEL", "results");
    expect(errno).toBe(EISDIR);
    expect(message).not.toBe("");
    expect(node.has("results/a-c2-net1")).toBe(true);
  });
});
