import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type CliStreams, command, ExitCode } from "#cli/command.ts";
import { commonFlags, textFlag } from "#cli/flags.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { installFile, sha256OfFile } from "./install.ts";

/** The checksums of the plugins that Plexus has installed, beside them; `sha256sum --check` reads the file. */
const listName = ".plexus-reference-plugins";

/** `plexusctl install-plugins`: what the init container of deploy/components/reference-plugins runs. */
export const installPluginsCommand = command({
  name: "install-plugins",
  summary: "copy the reference plugins that the node lacks: what an init container runs",
  description: `Copies the image's reference plugins into the node's plugin directory. A plugin that is there stays,
unless this command has installed it: ${listName} lists the checksums of what it installed, and
uninstall removes that.`,
  flags: {
    from: textFlag("DIR", "where the plugins are", join(defaultPaths.imageDir, "plugins")),
    "bin-dir": commonFlags.binDir,
  },
  async run({ flags }, output) {
    const names = await ifPresent(readdir(flags.from));
    if (names === undefined)
      throw new Error(
        `the image has no plugins in ${flags.from}: use that of a release whose tag ends in -plugins, or build it with PLUGINS=1`,
      );
    await mkdir(flags["bin-dir"], { recursive: true, mode: 0o755 });
    await installPlugins(flags.from, { names: names.toSorted(), to: flags["bin-dir"], output });
    return ExitCode.Done;
  },
});

interface Installation {
  readonly names: readonly string[];
  readonly to: string;
  readonly output: CliStreams;
}

async function installPlugins(from: string, { names, to, output }: Installation): Promise<void> {
  const before = await readList(to);
  const [added, replaced]: [string[], string[]] = [[], []];
  for (const name of names) {
    const present = await checksumLine(to, name);
    if (present === undefined) added.push(name);
    else if (before.includes(present)) replaced.push(name);
    else output.out(`${join(to, name)}: kept, because Plexus did not install it`);
  }
  const lines = await Promise.all([...added, ...replaced].map((name) => checksumLine(from, name)));
  const planned = lines.filter((line) => line !== undefined);
  // First the list, so that a plugin is never without its line.
  await writeList(to, [...before, ...planned]);
  for (const name of [...added, ...replaced]) {
    const isNew = added.includes(name);
    const result = await installFile(join(from, name), join(to, name), { isNew }).catch(ifExists);
    output.out(`${join(to, name)}: ${result}`);
  }
  // A plugin that another program put there meanwhile, or that this image lacks.
  const after = await Promise.all([...before, ...planned].map((line) => isCurrent(to, line)));
  await writeList(
    to,
    [...before, ...planned].filter((_, index) => after[index]),
  );
}

/** An agent of the primary CNI may be installing the same plugins at this moment. @throws any other error */
function ifExists(error: unknown): string {
  if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  return "kept, because another program has just installed it";
}

/** Removes the plugins that Plexus installed, except those that a configuration of another CNI names. */
export async function removePlugins(
  {
    binDir,
    cniConfDir,
    primaryDir,
  }: Readonly<Record<"binDir" | "cniConfDir" | "primaryDir", string>>,
  output: CliStreams,
): Promise<void> {
  const confs = await Promise.all([...new Set([cniConfDir, primaryDir])].map(readFiles));
  const kept: string[] = [];
  for (const line of await readList(binDir)) {
    const path = join(binDir, nameOf(line));
    if (!(await isCurrent(binDir, line))) continue;
    if (confs.flat().some((text) => text.includes(JSON.stringify(nameOf(line))))) {
      output.out(
        `${path}: kept, because a configuration in ${cniConfDir} or ${primaryDir} names it`,
      );
      kept.push(line);
    } else {
      await rm(path);
      output.out(`${path}: removed`);
    }
  }
  await writeList(binDir, kept);
}

async function readFiles(dir: string): Promise<string[]> {
  const names = (await ifPresent(readdir(dir))) ?? [];
  return Promise.all(names.map((name) => readFile(join(dir, name), "utf8").catch(() => "")));
}

async function readList(dir: string): Promise<string[]> {
  const text = (await ifPresent(readFile(join(dir, listName), "utf8"))) ?? "";
  return text.split("\n").filter((line) => /^[0-9a-f]{64} {2}[\w-]+$/.test(line));
}

async function writeList(dir: string, lines: readonly string[]): Promise<void> {
  const path = join(dir, listName);
  if (lines.length === 0) return rm(path, { force: true });
  await atomicWrite(path, `${[...new Set(lines)].toSorted(byName).join("\n")}\n`, { mode: 0o644 });
}

function byName(one: string, other: string): number {
  return nameOf(one).localeCompare(nameOf(other));
}

function nameOf(line: string): string {
  return line.slice(line.lastIndexOf(" ") + 1);
}

async function isCurrent(dir: string, line: string): Promise<boolean> {
  return (await checksumLine(dir, nameOf(line))) === line;
}

/** A file's line in the list; undefined if there is no file. */
async function checksumLine(dir: string, name: string): Promise<string | undefined> {
  const checksum = await ifPresent(sha256OfFile(join(dir, name)));
  return checksum && `${checksum}  ${name}`;
}
