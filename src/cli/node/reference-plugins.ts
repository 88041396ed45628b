import { appendFile, lstat, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type CliStreams, command, ExitCode } from "#cli/command.ts";
import { commonFlags, textFlag } from "#cli/flags.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { installFile, missingInImage, sha256OfFile } from "./install.ts";

/** The checksums of the plugins that Plexus has installed, beside them, as `sha256sum --check` reads them. */
const listName = ".plexus-reference-plugins";

/** `plexusctl install-plugins`: what the init container of deploy/components/reference-plugins runs. */
export const installPluginsCommand = command({
  name: "install-plugins",
  summary: "copy the reference plugins that the node lacks: what an init container runs",
  description: `Copies the image's reference plugins into the node's plugin directory. A plugin that is there stays,
unless this command has installed it: ${listName} lists the checksums of what it installed.
Uninstalling Plexus keeps both.`,
  flags: {
    from: textFlag("DIR", "where the plugins are", join(defaultPaths.imageDir, "plugins")),
    "bin-dir": commonFlags.binDir,
  },
  async run({ flags }, output) {
    const { from, "bin-dir": to } = flags;
    const names = await ifPresent(readdir(from));
    if (names === undefined) throw missingInImage(from, "plugins");
    await mkdir(to, { recursive: true, mode: 0o755 });
    const listed = await currentLines(to);
    for (const name of names.toSorted()) {
      const result = await installPlugin(name, { from, to, listed });
      output.out(`${join(to, name)}: ${result}`);
    }
    return ExitCode.Done;
  },
});

/** @param options.listed the lines of the plugins that Plexus installed */
async function installPlugin(
  name: string,
  { from, to, listed }: Record<"from" | "to", string> & { readonly listed: readonly string[] },
): Promise<string> {
  const kept = "kept, because Plexus did not install it";
  const [source, target] = [join(from, name), join(to, name)];
  const line = lineOf(name, await sha256OfFile(source));
  if ((await ifPresent(lstat(target))) === undefined) {
    try {
      await installFile(source, target, { isNew: true });
    } catch (error) {
      // Another program may be installing the same plugins at this moment.
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return kept;
      throw error;
    }
    // After a crash before this line, the plugin is never upgraded: it may be another program's.
    await addLine(to, line);
    return "installed";
  }
  const present = await lineAt(to, name);
  if (present === undefined || !listed.includes(present)) return kept;
  // First the line, so that Plexus recognises the plugin after a crash.
  if (present !== line) await addLine(to, line);
  return installFile(source, target);
}

/**
 * Says which plugins of Plexus stay on the node. No sign shows that they are not in use: container
 * runtimes and other plugins execute some that no configuration names, and running pods need theirs
 * to be detached.
 */
export async function reportPlugins(binDir: string, output: CliStreams): Promise<void> {
  const names = (await currentLines(binDir)).map(nameOf).toSorted();
  if (names.length === 0) return;
  output.out(
    `${join(binDir, listName)}: kept, with the reference plugins that it lists, because others may use them: ${names.join(", ")}`,
  );
}

/**
 * The lines of plugins that are as Plexus installed them. The others leave the list: another program
 * may install a file with the same bytes later.
 */
async function currentLines(dir: string): Promise<string[]> {
  const path = join(dir, listName);
  const text = (await ifPresent(readFile(path, "utf8"))) ?? "";
  const lines = text.split("\n").filter((line) => /^[0-9a-f]{64} {2}[\w-]+$/.test(line));
  const found = await Promise.all(lines.map((line) => lineAt(dir, nameOf(line))));
  const current = [...new Set(lines.filter((line, index) => line === found[index]))];
  const next = current.map((line) => `${line}\n`).join("");
  if (next === "") await rm(path, { force: true });
  else if (next !== text) await atomicWrite(path, next, { mode: 0o644 });
  return current;
}

/** Appends, so that no line gets lost when two pods of Plexus install at the same time. */
async function addLine(dir: string, line: string): Promise<void> {
  await appendFile(join(dir, listName), `${line}\n`, { mode: 0o644, flush: true });
}

/** The line of the file that is there; undefined if there is none, or something else. */
async function lineAt(dir: string, name: string): Promise<string | undefined> {
  const path = join(dir, name);
  const isFile = (await ifPresent(lstat(path)))?.isFile() === true;
  return isFile ? lineOf(name, await sha256OfFile(path)) : undefined;
}

function lineOf(name: string, checksum: string): string {
  return `${checksum}  ${name}`;
}

function nameOf(line: string): string {
  return line.slice(line.lastIndexOf(" ") + 1);
}
