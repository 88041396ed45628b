import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ExecOrder, encodePlan, type PlanParts } from "./frames.ts";
import type { Answer, Bench } from "./harness.ts";

/** A plan on disk, whose steps record what they are called with. */
export class PlanFile {
  readonly path: string;
  readonly #bench: Bench;

  constructor(bench: Bench, name = "c1@eth0.record") {
    this.#bench = bench;
    this.path = join(bench.state, name);
    for (const step of ["a", "b", "c", "d"]) this.step(step, "");
  }

  /** Creates a plugin that records its call and then runs the script. */
  step(name: string, script: string): void {
    const call = `$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME '$CNI_NETNS' $(cat)\${CNI_ARGS:+ $CNI_ARGS}`;
    this.#bench.plugin(name, `echo "${name} ${call}" >>${this.#bench.dir}/ran\n${script}`);
  }

  /** Writes a plan; steps run plugin `a` by default. */
  write(steps: Partial<ExecOrder>[], parts: Partial<PlanParts> = {}): Buffer {
    const own = { type: "a", path: this.#bench.bin, stdin: "conf", env: ["CNI_COMMAND=DEL"] };
    const orders = steps.map((step) => ({ ...own, ...step }));
    const bytes = encodePlan({ containerId: "c1", ifName: "eth0", steps: orders, ...parts });
    this.writeRaw(bytes);
    return bytes;
  }

  writeRaw(bytes: Uint8Array): void {
    writeFileSync(this.path, bytes, { mode: 0o600 });
  }

  /** Whether its mode marks a started DEL. */
  get isMarked(): boolean {
    return (statSync(this.path).mode & 0o7777) === 0o1600;
  }

  /** Runs a DEL, or another command, for its sandbox. */
  del(env: Record<string, string> = {}): Promise<Answer> {
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

/** A plan of an earlier ADD, with one step. */
export function earlier(bench: Bench): PlanFile {
  const plan = new PlanFile(bench);
  plan.write([{}]);
  return plan;
}
