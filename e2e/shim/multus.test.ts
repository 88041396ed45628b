import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { type Bench, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** A node on which Multus attached two containers. */
class MultusNode {
  readonly #bench: Bench;
  readonly #dir: string;
  /** What the plugins keep, and the container runtime. */
  readonly #stateDir: string;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.#stateDir = join(bench.dir, "cni");
    this.#dir = join(this.#stateDir, "multus");
    for (const results of [this.#dir, this.#stateDir]) {
      mkdirSync(join(results, "results"), { recursive: true });
    }
    for (const name of all) writeFileSync(join(this.#stateDir, name), contentOf(name));
  }

  get files(): string[] {
    const names = readdirSync(this.#stateDir, { recursive: true, withFileTypes: true });
    const files = names.filter((entry) => entry.isFile());
    return files
      .map((entry) => relative(this.#stateDir, join(entry.parentPath, entry.name)))
      .sort();
  }

  /** Makes a call. The engine creates these state files, then answers with this exit code. */
  async call(env: Record<string, string>, code = 0, ...made: string[]): Promise<void> {
    const server = await this.#bench.engine((engine) => {
      for (const name of made) writeFileSync(join(this.#bench.state, name), "", { mode: 0o600 });
      engine.done(code);
    });
    const PLEXUS_MULTUS_DIR = this.#dir;
    expect((await this.#bench.run({ env: { PLEXUS_MULTUS_DIR, ...env } })).code).toBe(code);
    server.close();
  }

  /** Makes a DEL that the shim replays from a plan, without plexusd. */
  async replay(): Promise<void> {
    const plan = new PlanFile(this.#bench);
    plan.write([]);
    expect((await plan.del({ PLEXUS_MULTUS_DIR: this.#dir })).code).toBe(0);
  }
}

/** As libcni writes it. The ID of the container `x-c1-y` contains another one's. */
function contentOf(name: string): string {
  const containerId = ["x-c1-y", "c2"].find((id) => name.includes(id)) ?? "c1";
  return JSON.stringify({ kind: "cniCacheV1", containerId, config: "e30=", result: {} });
}

const others = [
  ...["multus/c2", "multus/results/a-c2-net1", "multus/results/a-x-c1-y-net1"],
  ...["results/multus-cni-network-c2-eth0", "results/multus-cni-network-x-c1-y-eth0"],
];
const own = ["c1", "results/a-c1-net1", "results/main-c1-eth0"].map((name) => `multus/${name}`);
const all = [...others, ...own, "results/multus-cni-network-c1-eth0"].sort();

eachBuild("Multus's files for a container", (bench) => {
  test.each([
    ["detached it", 0, "c1@eth0.detached"],
    ["recorded it but could not detach it", 1, "c1@eth0.record"],
  ])("are removed, and no others, by a DEL that %s [S-117] [S-118]", async (_, code, made) => {
    const node = new MultusNode(bench());
    await node.call({ CNI_COMMAND: "DEL" }, code, made);
    expect(node.files).toEqual(others);
    await node.call({ CNI_COMMAND: "DEL" }, code);
    expect(node.files).toEqual(others);
  });

  test("are removed by a DEL from the teardown plan", async () => {
    const node = new MultusNode(bench());
    await node.replay();
    expect(node.files).toEqual(others);
  });

  test.each([
    ["a DEL without a record of it", { CNI_COMMAND: "DEL" }, ""],
    ["a DEL with a record of another interface", { CNI_COMMAND: "DEL" }, "c1@eth1.record"],
    ["a DEL of another container", { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c3" }, "c1@eth0.record"],
    ["ADD", { CNI_COMMAND: "ADD" }, "c1@eth0.record"],
    ["CHECK", { CNI_COMMAND: "CHECK" }, "c1@eth0.record"],
    ["GC", { CNI_COMMAND: "GC" }, "c1@eth0.record"],
    ["STATUS", { CNI_COMMAND: "STATUS" }, "c1@eth0.record"],
  ])("are kept by %s [S-118]", async (_, env, made) => {
    const node = new MultusNode(bench());
    await node.call(env, 0, ...(made === "" ? [] : [made]));
    expect(node.files).toEqual(all);
  });
});
