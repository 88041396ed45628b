import { chmod, mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "#engine/ports/logger.ts";
import { readTokenTimes } from "#kube/api/token-times.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { textIfUsable } from "#lib/files/read-file.ts";
import { type StandalonePaths, standalonePaths } from "#lib/files/standalone-paths.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";

export interface StandaloneFilesOptions {
  readonly stateDir: string;
  /** The name of the Node, which may differ from the host's. */
  readonly nodeName: string;
  /** Directories in which plexus-standalone may be installed. */
  readonly binDirs: () => readonly string[];
  readonly config: () => string;
  /** A self-contained kubeconfig; absent without an API. */
  readonly kubeconfig?: () => Promise<string>;
  readonly logger: Logger;
}

/**
 * Keeps on the host what plexus-standalone needs to serve calls: the configuration, for the same
 * policy, and a kubeconfig. Without plexus-standalone, no token is written to the host's disk.
 */
export class StandaloneFiles {
  readonly #options: StandaloneFilesOptions;
  readonly #paths: StandalonePaths;
  #problem: string | undefined = "its files are not written yet";

  constructor(options: StandaloneFilesOptions) {
    this.#options = options;
    this.#paths = standalonePaths(options.stateDir);
  }

  /** Why {@link refresh} left plexus-standalone unable to serve calls; undefined if it can. */
  notReadyReason(): string | undefined {
    return this.#problem && `plexus-standalone cannot serve calls: ${this.#problem}`;
  }

  /** Writes changes; without plexus-standalone, removes all files. @throws Error when that fails */
  async refresh(): Promise<void> {
    try {
      this.#problem = (await this.#isInstalled())
        ? await this.#writeAll()
        : await this.#removeAll();
    } catch (error) {
      const times = await readTokenTimes(this.#paths.kubeconfig);
      const isValid = times !== undefined && times.expiresAt > Date.now() / 1000;
      this.#problem = isValid ? undefined : errorMessage(error);
      throw error;
    }
  }

  async #writeAll(): Promise<undefined> {
    const { dir, config, nodeName, kubeconfig } = this.#paths;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await chmod(dir, 0o700);
    await this.#removeTemporaries();
    // Before the credentials: with them alone, calls would not follow the node's policy.
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
    const before = textIfUsable(path, "none");
    const found = await stat(path).catch(() => undefined);
    if (before === text && found !== undefined && (found.mode & 0o777) === 0o600) return;
    await atomicWrite(path, text, { mode: 0o600 });
    this.#options.logger.info({ path }, "written for calls that plexus-standalone serves");
  }

  /** Temporary files of a crash may contain a token. */
  async #removeTemporaries(): Promise<void> {
    const { dir } = this.#paths;
    const left = (await readdir(dir)).filter((name) => targetOfTemporaryName(name) !== undefined);
    await Promise.all(left.map((name) => rm(join(dir, name), { force: true })));
  }

  async #removeAll(): Promise<string> {
    await rm(this.#paths.dir, { recursive: true, force: true });
    return `it is not installed in ${this.#options.binDirs().join(" or ")}`;
  }
}
