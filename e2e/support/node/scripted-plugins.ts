import { existsSync } from "node:fs";
import { link, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { repositoryRoot } from "../paths.ts";
import { waitUntil } from "../wait.ts";
import type { NetnsLab } from "./netns-lab.ts";

/** One execution of a scripted plugin, as it recorded it. */
export interface Execution {
  /** Where it is recorded. */
  readonly dir: string;
  readonly type: string;
  readonly command: string;
  readonly ifName: string;
  /** The whole environment, `NAME=VALUE`, in the order in which it came. */
  readonly env: readonly string[];
  /** The CNI_* variables alone. */
  readonly cni: Readonly<Record<string, string>>;
  /** undefined when the plugin did not read it. */
  readonly stdin: string | undefined;
  readonly pid: number;
  readonly grandchild: number | undefined;
  /** Whether the plugin ended without being killed. */
  readonly ended: boolean;
}

/** What a plugin does on a command; e2e/fixtures/fake-plugin.c describes each key. */
export interface Script {
  readonly grandchild?: true;
  readonly nostdin?: true;
  readonly hold?: true;
  readonly hang?: true;
  readonly signal?: number;
  readonly stderr?: string;
  readonly hugeerr?: number;
  readonly huge?: number;
  readonly stdout?: string;
  readonly member?: string;
  readonly exit?: number;
}

/** The error that a plugin prints. */
export function errorScript(code: number, msg: string, details = ""): Script {
  const error = { cniVersion: "1.0.0", code, msg, ...(details === "" ? {} : { details }) };
  return { stdout: JSON.stringify(error), exit: 1 };
}

/** Small real executables that follow a test's script and record how they were called. */
export class ScriptedPlugins {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  /** Compiles the plugin into the lab's directory and gives it each of the names. */
  static async create(lab: NetnsLab, ...types: string[]): Promise<ScriptedPlugins> {
    const root = join(lab.dir, "scripted");
    for (const dir of ["bin", "control", "log"]) await mkdir(join(root, dir), { recursive: true });
    const binary = join(root, "fake-plugin");
    const source = join(repositoryRoot, "e2e/fixtures/fake-plugin.c");
    await execa("cc", ["-O1", "-Wall", "-Wextra", "-Werror", "-static", "-o", binary, source]);
    const plugins = new ScriptedPlugins(root);
    await plugins.install(...types);
    return plugins;
  }

  /** Belongs into CNI_PATH. */
  get binDir(): string {
    return join(this.#root, "bin");
  }

  async install(...types: string[]): Promise<void> {
    for (const type of types) await link(join(this.#root, "fake-plugin"), join(this.binDir, type));
  }

  async uninstall(type: string): Promise<void> {
    await rm(join(this.binDir, type));
  }

  /** From now on the plugin does this on the command; it replaces an earlier script. */
  async script(type: string, command: string, script: Script): Promise<void> {
    await this.unscript(type, command);
    for (const [key, value] of Object.entries(script)) {
      await writeFile(this.#control(type, command, key), value === true ? "" : String(value));
    }
  }

  /** The plugin is well-behaved again. */
  async unscript(type: string, command: string): Promise<void> {
    await this.#removeControls((name) => name.startsWith(`${type}.${command}.`));
  }

  /** Every plugin is well-behaved again, and its executions are forgotten. */
  async reset(): Promise<void> {
    await this.#removeControls(() => true);
    await this.clear();
  }

  /** Lets an execution go on that `hold` stopped. */
  async release(type: string, command: string): Promise<void> {
    await rm(this.#control(type, command, "hold"));
  }

  /** Resolves when an execution has come to its `hold`, or to where it hangs. */
  async reached(type: string, command: string): Promise<Execution> {
    return await waitUntil(`${type} holds on ${command}`, async () => {
      const all = await this.executions();
      const mark = (e: Execution): boolean => existsSync(join(e.dir, "holding"));
      return all.find((e) => e.type === type && e.command === command && !e.ended && mark(e));
    });
  }

  /** Every execution since the log was cleared, in order. */
  async executions(): Promise<Execution[]> {
    const names = (await readdir(join(this.#root, "log"))).sort();
    const found = await Promise.all(
      names.map((name) => readExecution(join(this.#root, "log", name))),
    );
    return found.filter((execution) => execution !== undefined);
  }

  /** `COMMAND type/ifname` of every execution, or of those for one container, in order. */
  async order(containerId?: string): Promise<string[]> {
    const all = await this.executions();
    return all
      .filter(({ cni }) => containerId === undefined || cni.CNI_CONTAINERID === containerId)
      .map((e) => `${e.command} ${e.type}/${e.ifName}`);
  }

  /** Forgets the executions so far. */
  async clear(): Promise<void> {
    await rm(join(this.#root, "log"), { recursive: true });
    await mkdir(join(this.#root, "log"));
  }

  async #removeControls(isMeant: (name: string) => boolean): Promise<void> {
    const dir = join(this.#root, "control");
    for (const name of (await readdir(dir)).filter(isMeant)) await rm(join(dir, name));
  }

  #control(type: string, command: string, key: string): string {
    return join(this.#root, "control", `${type}.${command}.${key}`);
  }
}

/** undefined while the plugin has not yet recorded how it was called. */
async function readExecution(dir: string): Promise<Execution | undefined> {
  const read = async (name: string): Promise<string | undefined> =>
    existsSync(join(dir, name)) ? await readFile(join(dir, name), "utf8") : undefined;
  const pid = await read("pid");
  if (pid === undefined) return undefined;
  const env = ((await read("env")) ?? "").split("\0").slice(0, -1);
  const pairs = env.map((entry) => [
    entry.slice(0, entry.indexOf("=")),
    entry.slice(entry.indexOf("=") + 1),
  ]);
  const grandchild = await read("grandchild");
  return {
    dir,
    type: (await read("type")) ?? "",
    command: (await read("command")) ?? "",
    ifName: (await read("ifname")) ?? "",
    env,
    cni: Object.fromEntries(pairs.filter(([name]) => name?.startsWith("CNI_"))),
    stdin: await read("stdin"),
    pid: Number(pid),
    grandchild: grandchild === undefined ? undefined : Number(grandchild),
    ended: existsSync(join(dir, "ended")),
  };
}
