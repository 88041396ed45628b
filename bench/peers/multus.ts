import { existsSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { cachedDirectory } from "../../e2e/cluster/machine/cache.ts";

/** The executables of Multus: the thin plugin, and the thick one's two. */
export interface Multus {
  readonly version: string;
  readonly thin: string;
  readonly shim: string;
  readonly daemon: string;
}

const module = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4";
const version = "v4.3.0";
const commands = ["multus", "multus-shim", "multus-daemon"];
const installers = ["thin_entrypoint", "install_multus", "passthru-cni"];

/**
 * Multus as BENCH_MULTUS has it (a directory of its executables), else built from its released module
 * with the versions that its own go.mod pins, and kept in the cache. BENCH_PEERS=none leaves it out;
 * without Go or network it is left out as well, with a message.
 * @throws Error in CI when it cannot be built: figures without the peer prove nothing there
 */
export async function findMultus(): Promise<Multus | undefined> {
  if (process.env.BENCH_PEERS === "none") return undefined;
  try {
    const dir = process.env.BENCH_MULTUS ?? (await buildCommands("multus", commands));
    const [thin = "", shim = "", daemon = ""] = commands.map((name) => join(dir, name));
    const missing = [thin, shim, daemon].find((path) => !existsSync(path));
    if (missing !== undefined) throw new Error(`${missing} is missing`);
    return { version: process.env.BENCH_MULTUS === undefined ? version : dir, thin, shim, daemon };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `Multus ${version} is not there to compare with: ${reason}`;
    if (process.env.CI === "true") throw new Error(message, { cause: error });
    process.stderr.write(`bench: WITHOUT MULTUS. ${message}\n`);
    return undefined;
  }
}

/** The directory with what Multus's images have besides: the thin entry point and what installs the plugin. */
export async function buildMultusInstallers(): Promise<string> {
  return buildCommands("multus-installers", installers);
}

/** A cached directory of executables of the module. */
async function buildCommands(name: string, of: readonly string[]): Promise<string> {
  const { stdout: go } = await execa("go", ["version"]);
  return cachedDirectory(name, [go, module, version], async (directory) => {
    const cwd = await multusSource();
    // As its own build does: static, with symbols.
    const flags = ["-trimpath", "-ldflags", `-X ${module}/pkg/multus.version=${version}`];
    const packages = of.map((command) => `./cmd/${command}`);
    const env = { CGO_ENABLED: "0" };
    await execa("go", ["build", ...flags, "-o", `${directory}/`, ...packages], { cwd, env });
  });
}

/** The directory of the released module's source, which Go's module cache has or gets. */
export async function multusSource(): Promise<string> {
  const { stdout } = await execa("go", ["mod", "download", "-json", `${module}@${version}`]);
  return (JSON.parse(stdout) as { Dir: string }).Dir;
}
