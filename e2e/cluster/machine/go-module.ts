import { cp, mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cachedDirectory } from "./cache.ts";
import { type Command, run } from "./run.ts";

/** A released Go module whose programs a cluster needs. */
export interface GoModule {
  /** Names the directory in the cache. */
  readonly name: string;
  /** PATH@VERSION. */
  readonly module: string;
  /** The program's package, by its file name. */
  readonly programs: Readonly<Record<string, string>>;
  /** The tests' package, by the file name of the program that runs them. @default none */
  readonly tests?: Readonly<Record<string, string>>;
  /** Files and directories of the source to keep. @default none */
  readonly keep?: readonly string[];
  /** Those of them to make executable, as modules have no executable files; all files of a directory. @default none */
  readonly scripts?: readonly string[];
  /** A shell command that changes the source before the build. @default none */
  readonly edit?: string;
}

/** Builds the programs, unless they are in the cache, and returns their directory, which also has what to keep. */
export async function builtModule(options: GoModule): Promise<string> {
  const inputs = [await run(["go", "version"]), JSON.stringify(options)];
  return cachedDirectory(options.name, inputs, (directory) => build(options, directory));
}

/** Builds in a copy of the module, so that its own go.mod decides about every version. */
async function build(options: GoModule, directory: string): Promise<void> {
  const { module, programs, tests = {}, keep = [], scripts = [], edit } = options;
  const origin = await downloadedModule(module);
  await using scratch = await mkdtempDisposable(join(tmpdir(), "plexus-module-"));
  const source = join(scratch.path, "source");
  await cp(origin, source, { recursive: true });
  await run(["chmod", "-R", "u+w", source]);
  if (edit !== undefined) await run(["sh", "-euc", edit], { cwd: source });
  const env = { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false -mod=mod" };
  const compile = async (command: Command, packages: object): Promise<void> => {
    for (const [name, path] of Object.entries(packages)) {
      const flags = ["-trimpath", "-ldflags", "-s -w", "-o", join(directory, name)];
      await run([...command, ...flags, path], { cwd: source, env });
    }
  };
  await compile(["go", "build"], programs);
  await compile(["go", "test", "-c", "-vet=off"], tests);
  for (const name of keep) {
    await cp(join(source, name), join(directory, name), { recursive: true });
  }
  for (const name of scripts) await run(["chmod", "-R", "a+x", join(directory, name)]);
}

/** Downloads PATH@VERSION, unless the machine has it, and returns its directory, which is read-only. */
export async function downloadedModule(module: string): Promise<string> {
  const json = await run(["go", "mod", "download", "-json", module], { cwd: "/" });
  return (JSON.parse(json) as { Dir: string }).Dir;
}
