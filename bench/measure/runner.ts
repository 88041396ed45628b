import { type ChildProcessByStdio, spawn } from "node:child_process";
import { on } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/** One execution of a CNI plugin. */
export interface Step {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** What is measured as one: a row of executions. */
export interface Job {
  readonly name: string;
  readonly steps: readonly Step[];
}

/** How a job went. */
export interface Outcome {
  /** When the first job of the run was started, in microseconds of CLOCK_MONOTONIC. */
  readonly startedUs: number;
  readonly milliseconds: number;
  /** What it printed, when it failed. */
  readonly error: string | undefined;
}

/** Starts jobs through bench/native/runner.c, which measures them. */
export class Runner implements Disposable {
  readonly #dir: string;
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;
  readonly #prepared = new Map<string, string>();

  constructor(binary: string, dir: string) {
    this.#dir = dir;
    this.#process = spawn(binary, { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface(this.#process.stdout);
  }

  get pid(): number {
    return this.#process.pid as number;
  }

  /** Runs jobs at once; returns what each took, in their order. */
  async run(jobs: readonly Job[]): Promise<Outcome[]> {
    const lines = jobs.flatMap((job, index) =>
      job.steps.map(
        (step, nth) =>
          `step ${index} ${this.#prepare(`${job.name}.${nth}`, step)} ${step.program}\n`,
      ),
    );
    this.#process.stdin.write(`${lines.join("")}go\n`);
    const outcomes: Omit<Outcome, "startedUs">[] = [];
    for await (const [line] of lineEvents(this.#lines)) {
      const words = (line as string).split(" ");
      const startedUs = Number(words[1]);
      if (words[0] === "end") return outcomes.map((outcome) => ({ ...outcome, startedUs }));
      const [index = 0, status, microseconds = 0] = words.map(Number);
      const job = jobs[index] as Job;
      const error = status === 0 ? undefined : `${job.name} failed: ${this.#printed(job)}`;
      outcomes[index] = { milliseconds: microseconds / 1000, error };
    }
    throw new Error("the runner has ended");
  }

  /** Runs one job. @throws Error with what it printed when it fails */
  async runOne(job: Job): Promise<Outcome> {
    const [outcome] = await this.run([job]);
    if (outcome === undefined || outcome.error !== undefined) throw new Error(outcome?.error);
    return outcome;
  }

  /** What the first step of a job printed on stderr. */
  stderr(job: Job): string {
    return readFileSync(join(this.#dir, `${job.name}.0`, "stderr"), "utf8");
  }

  /** The files of a step, written once: a job of the same name is the same job. */
  #prepare(name: string, step: Step): string {
    const known = this.#prepared.get(name);
    if (known !== undefined) return known;
    const dir = join(this.#dir, name);
    mkdirSync(dir, { recursive: true });
    writeFileSync(
      join(dir, "env"),
      Object.entries(step.env)
        .map(([key, value]) => `${key}=${value}\0`)
        .join(""),
    );
    writeFileSync(join(dir, "stdin"), step.stdin);
    this.#prepared.set(name, dir);
    return dir;
  }

  #printed(job: Job): string {
    const texts = job.steps.flatMap((_, nth) =>
      ["stdout", "stderr"].map((stream) => {
        try {
          return readFileSync(join(this.#dir, `${job.name}.${nth}`, stream), "utf8");
        } catch {
          return "";
        }
      }),
    );
    return texts.join(" ").replaceAll(/\s+/g, " ");
  }

  [Symbol.dispose](): void {
    this.#process.kill("SIGKILL");
  }
}

function lineEvents(lines: Interface): AsyncIterable<unknown[]> {
  return on(lines, "line");
}
