import { join } from "node:path";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import type { ConfFiles, Logger } from "#engine/ports.ts";
import { type DirectoryWatch, watchDirectory } from "#lib/watch-directory.ts";
import { type Choice, choosePrimary } from "./choose.ts";
import { type GuardOptions, OwnFileGuard } from "./guard.ts";
import { PrimaryMemory } from "./memory.ts";
import { ownConf, sweepLeftovers, viewOwnFile, writeOwnFile } from "./own-file.ts";
import { findCandidates, fingerprintOf, ownFileName } from "./primary.ts";
import { type ConfStatus, statusOf } from "./state.ts";

/** Times; the defaults are for production. */
export interface NodeConfTimings extends GuardOptions {
  /** How often everything is looked at although no watch tells of a change. */
  readonly pollMs: number;
  /** The same while something is waited for that may not be in a watched directory. */
  readonly waitingPollMs: number;
  /** How long after a change it is looked at: agents write several files. */
  readonly debounceMs: number;
  /** How long a previous primary may be away before another is taken for its successor. */
  readonly goneMs: number;
}

const defaultTimings: NodeConfTimings = {
  pollMs: 30_000,
  waitingPollMs: 1000,
  debounceMs: 100,
  goneMs: 60_000,
  restore: { initialMs: 100, maxMs: 300_000, factor: 4, jitter: 0.2 },
  calmMs: 600_000,
};

/** Options of {@link startNodeConf}. */
export interface NodeConfOptions {
  /** The configuration as of now; {@link NodeConf.look} after it has changed. */
  readonly config: () => NodeConfSpec;
  /** Where the name of the primary is remembered. */
  readonly stateDir: string;
  readonly files: ConfFiles;
  readonly logger: Logger;
  /** The state, its reason or the primary has changed. */
  readonly onState?: (status: ConfStatus, before: ConfStatus) => void;
  readonly timings?: Partial<NodeConfTimings>;
}

/** The node's configuration being kept up to date. */
export interface NodeConf {
  status(): ConfStatus;
  /** Why the node is not ready by its configuration; undefined when it is. */
  notReadyReason(): string | undefined;
  /** Looks at everything now. */
  look(): void;
  /** Leaves the file where it is: only an uninstallation removes it. */
  stop(): Promise<void>;
}

/** Starts keeping `00-plexus.conflist` in the container runtime's directory, after a first look. */
export async function startNodeConf(options: NodeConfOptions): Promise<NodeConf> {
  const keeper = new NodeConfKeeper(options);
  await keeper.start();
  return keeper;
}

class NodeConfKeeper implements NodeConf {
  readonly #options: NodeConfOptions;
  readonly #timings: NodeConfTimings;
  readonly #memory: PrimaryMemory;
  readonly #guard: OwnFileGuard;
  #status: ConfStatus = {
    state: "waiting",
    reason: "the node's configuration was not looked at yet",
  };
  /** What our file says, or is to say once it is restored. */
  #text: string | undefined;
  #fingerprint = "";
  #unchangedSince = performance.now();
  #watches: readonly DirectoryWatch[] = [];
  #wake: () => void = () => undefined;
  #woken = false;
  #stopped = false;
  #running: Promise<void> | undefined;

  constructor(options: NodeConfOptions) {
    this.#options = options;
    this.#timings = { ...defaultTimings, ...options.timings };
    this.#memory = new PrimaryMemory(options.stateDir);
    this.#guard = new OwnFileGuard(this.#timings);
  }

  async start(): Promise<void> {
    const { cniConfDir, primaryDir } = this.#options.config();
    await sweepLeftovers(cniConfDir, this.#options.files);
    this.#text = (await viewOwnFile(cniConfDir, this.#options.files)).text;
    await this.#memory.load(this.#text);
    // Before the first look, so that no change falls between the two.
    const dirs = [...new Set([cniConfDir, primaryDir])];
    this.#watches = await Promise.all(dirs.map((dir) => watchDirectory(dir, () => this.look())));
    this.#running = this.#run(await this.#lookOnce());
  }

  status(): ConfStatus {
    return this.#status;
  }

  notReadyReason(): string | undefined {
    return this.#status.state === "active" ? undefined : this.#status.reason;
  }

  look(): void {
    this.#woken = true;
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.look();
    await this.#running;
  }

  async #run(firstMs: number): Promise<void> {
    for (let nextMs = firstMs; !this.#stopped; ) {
      await Promise.all(this.#watches.map((each) => each.rearm()));
      await this.#sleep(nextMs);
      if (!this.#stopped) nextMs = await this.#lookOnce();
    }
    for (const each of this.#watches) each.close();
  }

  /** Until the time is over, or a little after something has changed. */
  async #sleep(ms: number): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = (): void => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#woken && !this.#stopped) {
      await new Promise((resolve) => setTimeout(resolve, this.#timings.debounceMs));
    }
    this.#woken = false;
  }

  /** One look at everything; returns when the next one is due. */
  async #lookOnce(): Promise<number> {
    try {
      return await this.#keep();
    } catch (error) {
      this.#options.logger.error({ err: error }, "the node's CNI configuration cannot be kept");
      const text = error instanceof Error ? error.message : String(error);
      this.#setStatus({
        state: "waiting",
        reason: `the node's configuration cannot be kept: ${text}`,
      });
      return this.#timings.waitingPollMs;
    }
  }

  async #keep(): Promise<number> {
    const config = this.#options.config();
    const choice = await this.#choose(config);
    const primary = "primary" in choice ? choice.primary : undefined;
    const view = await viewOwnFile(config.cniConfDir, this.#options.files);
    const wanted =
      "waiting" in choice ? this.#text : ownConf({ ...config, ...(primary && { primary }) });
    if (wanted === undefined) {
      this.#setStatus({ state: "waiting", reason: "waiting" in choice ? choice.waiting : "" });
      return Math.min(this.#timings.waitingPollMs, againMs(choice));
    }
    const disturbance = this.#guard.disturbance(view, this.#text ?? this.#lostText(wanted));
    const waitMs = disturbance === undefined ? 0 : this.#guard.waitMs();
    if (disturbance !== undefined) this.#text = wanted;
    if (disturbance !== undefined && waitMs > 0) {
      this.#setStatus({ ...disturbance, ...(primary && { primary: primary.file }) });
      return waitMs;
    }
    if (view.text !== wanted) await this.#write(config, { text: wanted, disturbance });
    if (primary !== undefined) await this.#memory.remember(primary.file);
    this.#setStatus(statusOf(choice, await viewOwnFile(config.cniConfDir, this.#options.files)));
    return Math.min(nextLookMs(this.#status, this.#timings), againMs(choice));
  }

  /** Our file was lost while no daemon ran: there has been a primary, so there has been a file. */
  #lostText(wanted: string): string | undefined {
    return this.#memory.file === undefined ? undefined : wanted;
  }

  async #choose(config: NodeConfSpec): Promise<Choice | { primary: undefined }> {
    const { files } = this.#options;
    const { readinessFile } = config;
    const isFirst = this.#text === undefined;
    if (isFirst && readinessFile !== undefined && (await files.kind(readinessFile)) === "absent") {
      return { waiting: `the readiness file ${readinessFile} does not exist yet` };
    }
    if (config.withoutPrimary) return { primary: undefined };
    const candidates = await findCandidates({ ...config, dir: config.primaryDir, files });
    const fingerprint = fingerprintOf(candidates);
    if (fingerprint !== this.#fingerprint) this.#unchangedSince = performance.now();
    this.#fingerprint = fingerprint;
    return choosePrimary({
      candidates,
      wanted: config.primaryConf,
      previous: this.#memory.file,
      unchangedMs: performance.now() - this.#unchangedSince,
      settleMs: config.settleMs,
      goneMs: this.#timings.goneMs,
    });
  }

  async #write(
    config: NodeConfSpec,
    file: { text: string; disturbance: ConfStatus | undefined },
  ): Promise<void> {
    await writeOwnFile(config.cniConfDir, file.text);
    this.#text = file.text;
    const fields = { path: join(config.cniConfDir, ownFileName) };
    if (file.disturbance === undefined) {
      this.#options.logger.info(fields, "node configuration written");
      return;
    }
    this.#guard.restored();
    const why = { ...fields, state: file.disturbance.state, reason: file.disturbance.reason };
    this.#options.logger.warn(why, "node configuration restored");
  }

  #setStatus(status: ConfStatus): void {
    const before = this.#status;
    const same = before.state === status.state && before.reason === status.reason;
    if (same && before.primary === status.primary) return;
    this.#status = status;
    const level = status.state === "active" ? "info" : "warn";
    this.#options.logger[level]({ ...status }, "node configuration state");
    this.#options.onState?.(status, before);
  }
}

function againMs(choice: Choice | { primary: undefined }): number {
  return ("againMs" in choice ? choice.againMs : undefined) ?? Number.POSITIVE_INFINITY;
}

function nextLookMs(status: ConfStatus, timings: NodeConfTimings): number {
  return status.state === "active" ? timings.pollMs : timings.waitingPollMs;
}
