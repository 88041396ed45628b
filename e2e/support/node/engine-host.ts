import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Daemon } from "../daemon.ts";
import { type Flavour, flavour } from "../flavour.ts";
import {
  type PlexusdPaths,
  shimEnvironment,
  standaloneEnvironment,
  standaloneOf,
  standalonesOf,
  startPlexusd,
} from "../plexusd.ts";
import { signal, waitForExit } from "../processes.ts";
import { waitUntil } from "../wait.ts";
import type { RunningCall } from "./cni-call.ts";
import type { NetnsLab } from "./netns-lab.ts";

/** What serves the calls of a node. */
export interface EngineHost {
  /** The variables that point a shim to it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Everything that it logged. */
  readonly log: string;
  /** From now on it serves, with plexusd's flags. @throws Error when it does not */
  start(flags: readonly string[]): Promise<void>;
  /** From now on it does not serve. */
  stop(name: NodeJS.Signals): Promise<void>;
  /** The process that serves a call. @throws Error when there is none */
  pidOf(call?: RunningCall): Promise<number>;
  /** Kills that process, and waits until it has ended. */
  kill(call: RunningCall): Promise<void>;
  /** Gets what a call printed on stderr. */
  printed(stderr: string): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a host is made for. */
export interface EngineHostOptions {
  readonly lab: NetnsLab;
  readonly paths: PlexusdPaths & { readonly manifests: string };
  /** The configuration file; undefined without keys. */
  readonly config: string | undefined;
}

/** The host of this run's flavour. */
export function engineHost(options: EngineHostOptions): EngineHost {
  const hosts: Record<Flavour, () => EngineHost> = {
    daemon: () => new DaemonHost(options),
    standalone: () => new StandaloneHost(options),
  };
  return hosts[flavour]();
}

/** plexusd; one that is started while another runs is to hand over. */
class DaemonHost implements EngineHost {
  readonly #options: EngineHostOptions;
  readonly #logFile: string;
  readonly #daemons: Daemon[] = [];

  constructor(options: EngineHostOptions) {
    this.#options = options;
    this.#logFile = join(options.lab.dir, "plexusd.log");
  }

  get environment(): Record<string, string> {
    return shimEnvironment(this.#options.paths);
  }

  get log(): string {
    return existsSync(this.#logFile) ? readFileSync(this.#logFile, "utf8") : "";
  }

  async start(flags: readonly string[]): Promise<void> {
    const { lab, paths, config } = this.#options;
    const { manifests, ...rest } = paths;
    const isGiven = flags.includes("--manifests") || flags.includes("--kubeconfig");
    const daemon = await startPlexusd({
      ...rest,
      ...(isGiven ? {} : { manifests }),
      flags: [...(config === undefined ? [] : ["--config", config]), ...flags],
      logFile: this.#logFile,
      enter: (...command) => lab.command(...command),
    });
    this.#daemons.push(daemon);
  }

  /** Ends the oldest: SIGTERM lets it finish, SIGKILL does not. */
  async stop(name: NodeJS.Signals): Promise<void> {
    await this.#daemons.shift()?.stop(name);
  }

  async pidOf(): Promise<number> {
    const daemon = this.#daemons.at(-1);
    if (daemon === undefined) throw new Error("no daemon has been started");
    return daemon.pid;
  }

  kill(): Promise<void> {
    return this.stop("SIGKILL");
  }

  printed(): void {
    // plexusd has its own log.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    while (this.#daemons.length > 0) await this.stop("SIGKILL");
  }
}

/** The compiled plexus-standalone, which serves while it is installed. */
class StandaloneHost implements EngineHost {
  readonly #options: EngineHostOptions;
  readonly #logFile: string;
  #isInstalled = false;
  #config: string | undefined;

  constructor(options: EngineHostOptions) {
    this.#options = options;
    this.#logFile = join(options.lab.dir, "calls.log");
  }

  get environment(): Record<string, string> {
    const { paths } = this.#options;
    if (!this.#isInstalled) return shimEnvironment(paths);
    return standaloneEnvironment({ ...paths, config: this.#config });
  }

  get log(): string {
    return existsSync(this.#logFile) ? readFileSync(this.#logFile, "utf8") : "";
  }

  async start(flags: readonly string[]): Promise<void> {
    const [name, config, ...rest] = flags;
    if (rest.length > 0 || (name ?? "--config") !== "--config")
      throw new Error(`plexus-standalone has no flags ${flags}: declare needsPlexusd()`);
    this.#config = config ?? this.#options.config;
    this.#isInstalled = true;
  }

  /** What has stayed after a call serves no more, either. */
  async stop(): Promise<void> {
    this.#isInstalled = false;
    for (const pid of standalonesOf(this.#options.paths.socket)) {
      signal(pid, "SIGKILL");
      await waitForExit(pid);
    }
  }

  async pidOf(call?: RunningCall): Promise<number> {
    if (call === undefined) throw new Error("nothing runs between calls: declare needsPlexusd()");
    const { pid } = call;
    return waitUntil("plexus-standalone serves the call", () =>
      standaloneOf(pid, this.#options.paths.socket),
    );
  }

  async kill(call: RunningCall): Promise<void> {
    const pid = await this.pidOf(call);
    signal(pid, "SIGKILL");
    await waitForExit(pid);
  }

  printed(stderr: string): void {
    if (this.#isInstalled) appendFileSync(this.#logFile, stderr);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
