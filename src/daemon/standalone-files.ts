import { chmod, mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "#engine/ports.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { type StandalonePaths, standalonePaths } from "#lib/files/standalone-paths.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";

/** What {@link StandaloneFiles} works with. */
export interface StandaloneFilesOptions {
  readonly stateDir: string;
  /** The Node's name, which need not be the host's name. */
  readonly nodeName: string;
  /** Where plexus-standalone is when it is installed. */
  readonly binDirs: () => readonly string[];
  /** The text of the configuration in effect. */
  readonly config: () => string;
  /** A kubeconfig with everything in it; absent where pods do not come from an API. */
  readonly kubeconfig?: () => Promise<string>;
  readonly logger: Logger;
}

/**
 * Keeps on the host what plexus-standalone needs to serve a call as plexusd would: the configuration,
 * so that the same policy holds, and the way to the API server. Only where plexus-standalone is
 * installed: elsewhere no token lies on the host's disk.
 */
export class StandaloneFiles {
  readonly #options: StandaloneFilesOptions;
  readonly #paths: StandalonePaths;

  constructor(options: StandaloneFilesOptions) {
    this.#options = options;
    this.#paths = standalonePaths(options.stateDir);
  }

  /** Writes what has changed, or removes everything. @throws Error when that cannot be done, or no credentials be read */
  async refresh(): Promise<void> {
    if (!(await this.#isInstalled())) return this.#removeAll();
    const { dir, config, nodeName, kubeconfig } = this.#paths;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await chmod(dir, 0o700);
    await this.#removeTemporaries();
    // Before the credentials: with these and without the configuration the node's policy would not hold.
    await this.#write(config, this.#options.config());
    await this.#write(nodeName, this.#options.nodeName);
    if (this.#options.kubeconfig === undefined) await rm(kubeconfig, { force: true });
    else await this.#write(kubeconfig, await this.#options.kubeconfig());
  }

  async #isInstalled(): Promise<boolean> {
    const paths = this.#options.binDirs().map((dir) => join(dir, executableNames.standalone));
    const found = await Promise.all(paths.map((path) => stat(path).catch(() => undefined)));
    return found.some((each) => each?.isFile() === true);
  }

  async #write(path: string, text: string): Promise<void> {
    const [before, found] = await Promise.all([
      readFile(path, "utf8").catch(() => undefined),
      stat(path).catch(() => undefined),
    ]);
    if (before === text && found !== undefined && (found.mode & 0o777) === 0o600) return;
    await atomicWrite(path, text, { mode: 0o600 });
    this.#options.logger.info({ path }, "written for calls that plexus-standalone serves");
  }

  /** What a crash between writing and renaming has left may be a token. */
  async #removeTemporaries(): Promise<void> {
    const { dir } = this.#paths;
    const left = (await readdir(dir)).filter((name) => targetOfTemporaryName(name) !== undefined);
    await Promise.all(left.map((name) => rm(join(dir, name), { force: true })));
  }

  #removeAll(): Promise<void> {
    return rm(this.#paths.dir, { recursive: true, force: true });
  }
}
