import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { unpackedPackages } from "../cluster/machine/debian.ts";
import { type Command, type RunResult, run, tryRun } from "../cluster/machine/run.ts";
import { Daemon } from "../support/daemon.ts";

/** One series of an answer: a sample for an instant, several for a range. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value?: readonly [time: number, value: string];
  readonly values?: readonly (readonly [time: number, value: string])[];
}

/** The last seconds, with a sample for each step. */
export type Range = Readonly<Record<"seconds" | "step", number>>;

/** How a Prometheus is started. */
export interface PrometheusOptions {
  /** Configuration, data and log. */
  readonly directory: string;
  /** What prometheus.yml has. */
  readonly config: object;
  /** Comes before every command, to run it elsewhere. @default nothing */
  readonly prefix?: readonly string[];
}

/** The directory of `prometheus` and `promtool`, from Debian's package; the first time they are downloaded. */
export async function prometheusPrograms(): Promise<string> {
  const root = await unpackedPackages({
    name: "debian-prometheus",
    // Later releases have promtool in another package.
    release: "bookworm",
    fromRelease: ["prometheus"],
    trials: [
      ["usr/bin/prometheus", "--version"],
      ["usr/bin/promtool", "--version"],
    ],
  });
  return join(root, "usr/bin");
}

/** Runs promtool, whatever its exit status. */
export async function promtool(args: readonly string[], input = ""): Promise<RunResult> {
  return tryRun([join(await prometheusPrograms(), "promtool"), ...args], { input });
}

/** A Prometheus, and questions to it. It ends with stop(). */
export class Prometheus {
  readonly #promtool: string;
  readonly #prefix: readonly string[];
  readonly #daemon: Daemon;

  private constructor(daemon: Daemon, programs: string, prefix: readonly string[]) {
    this.#daemon = daemon;
    this.#promtool = join(programs, "promtool");
    this.#prefix = prefix;
  }

  /** Starts one that listens on the loopback interface, and waits until it answers. */
  static async start({ directory, config, prefix = [] }: PrometheusOptions): Promise<Prometheus> {
    const programs = await prometheusPrograms();
    await mkdir(directory, { recursive: true });
    const file = join(directory, "prometheus.yml");
    await writeFile(file, stringify(config));
    const flags = [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, "data")}`,
      `--web.listen-address=${address}`,
    ];
    const command = [...prefix, join(programs, "prometheus"), ...flags] as unknown as Command;
    const logFile = join(directory, "prometheus.log");
    const daemon = Daemon.start({ name: "prometheus", command, logFile });
    const prometheus = new Prometheus(daemon, programs, prefix);
    await daemon.waitUntil("prometheus answers", async () => {
      await prometheus.query("vector(1)");
      return true;
    });
    return prometheus;
  }

  /** The series of an expression now. @throws Error with Prometheus's own words when it cannot be evaluated */
  async query(expression: string): Promise<Series[]> {
    return this.#ask("instant", [expression]);
  }

  /** The series of an expression over the last `seconds`. @throws Error as {@link query} */
  async queryRange(expression: string, { seconds, step }: Range): Promise<Series[]> {
    const end = Math.floor(Date.now() / 1000);
    const range = [`--start=${end - seconds}`, `--end=${end}`, `--step=${step}s`];
    return this.#ask("range", [...range, expression]);
  }

  async stop(): Promise<void> {
    await this.#daemon.stop();
  }

  async #ask(how: string, [...args]: readonly string[]): Promise<Series[]> {
    const expression = args.pop() ?? "";
    const client = [this.#promtool, "query", how, "--format=json", ...args];
    const command = [...this.#prefix, ...client, `http://${address}`, expression];
    return JSON.parse(await run(command as unknown as Command)) as Series[];
  }
}

const address = "127.0.0.1:9090";
