import { EventEmitter } from "node:events";
import { dirname } from "node:path";
import type { DaemonFlags } from "#daemon/flags.ts";
import type { Metrics } from "#daemon/http/metrics.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { watchDirectory } from "#lib/files/watch-directory.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type DaemonConfig, defaultConfig } from "./config.ts";
import { mergeConfigFiles, readConfigFiles } from "./config-files.ts";
import { type Layer, type Setting, settingsOf } from "./settings.ts";

/** The configuration in effect: the file or the default, overridden by the command line. */
export interface EffectiveConfig {
  current(): DaemonConfig;
  /** One text with the keys of the files in effect; empty without a file. */
  text(): string;
  /** Every key with its value in effect. The container runtime's configuration may give some. */
  settings(conf: JsonObject): Setting[];
  onChange(listener: () => void): unknown;
  /** Calls the listener when a changed file cannot be used; the previous one stays in effect. */
  onInvalid(listener: (message: string) => void): unknown;
  /** Why the present file cannot be used; undefined when it is in effect. */
  problem(): string | undefined;
  /** What the file in effect says in vain, such as former keys: a sentence each. */
  warnings(): readonly string[];
  close(): void;
}

export interface EffectiveConfigOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly metrics: Pick<Metrics, "configReloaded">;
  /** How often the file is read without a reported change. @default 30000 */
  readonly pollMs?: number;
  /** Delay between a change and reading: a ConfigMap changes several files. @default 200 */
  readonly settleMs?: number;
}

/** Reads the configuration and follows its file. @throws ConfigError or Error if it is unusable */
export function openEffectiveConfig(options: EffectiveConfigOptions): Promise<EffectiveConfig> {
  const { config } = options.flags;
  return config === undefined ? configWithoutFile(options) : followFile(config, options);
}

async function configWithoutFile({ flags }: EffectiveConfigOptions): Promise<EffectiveConfig> {
  const config = withFlags(defaultConfig, flags);
  const never = (): undefined => undefined;
  const layers = [flagLayer(flags)];
  const settings = (conf: JsonObject) => settingsOf({ now: layers, atStart: layers }, conf);
  const fixed = { current: () => config, text: () => "", settings };
  const nothing = { problem: never, warnings: () => [] };
  return { ...fixed, ...nothing, onChange: never, onInvalid: never, close: never };
}

/** Watches the directory, because a ConfigMap's volume replaces a symlink next to the file. */
async function followFile(path: string, options: EffectiveConfigOptions): Promise<EffectiveConfig> {
  const { flags, settleMs = 200, pollMs = 30_000 } = options;
  const file = new FollowedFile(path, options);
  await file.read();
  const atStart = file.layers;
  options.setLogLevel(file.config.logLevel);
  let pending: NodeJS.Timeout | undefined;
  const watched = await watchDirectory(dirname(path), () => {
    pending ??= setTimeout(() => {
      pending = undefined;
      void file.reread();
    }, settleMs);
  });
  const poll = setInterval(() => {
    void file.reread();
    void watched.rearm();
  }, pollMs);
  poll.unref();
  return {
    current: () => withFlags(file.config, flags),
    text: () => file.text,
    settings: (conf) =>
      settingsOf(
        {
          now: [flagLayer(flags), ...file.layers],
          atStart: [flagLayer(flags), ...atStart],
        },
        conf,
      ),
    onChange: (listener) => file.events.on("change", listener),
    onInvalid: (listener) => file.events.on("invalid", listener),
    problem: () => file.problem,
    warnings: () => file.warnings,
    close: () => {
      clearInterval(poll);
      clearTimeout(pending);
      watched.close();
    },
  };
}

class FollowedFile {
  readonly events = new EventEmitter<{ change: []; invalid: [message: string] }>();
  readonly #path: string;
  readonly #options: EffectiveConfigOptions;
  #lastRead: string | undefined;
  /** In effect, with {@link text}. */
  config: DaemonConfig = defaultConfig;
  text = "";
  layers: readonly Layer[] = [];
  warnings: readonly string[] = [];
  /** Why the file was not used when it was last read. */
  problem: string | undefined;

  constructor(path: string, options: EffectiveConfigOptions) {
    this.#path = path;
    this.#options = options;
  }

  /** Returns whether it has changed. @throws ConfigError, or as node:fs does */
  async read(): Promise<boolean> {
    const texts = await readConfigFiles(this.#path).catch((error: unknown) => {
      // A file that can be read again has changed, whatever its text.
      this.#lastRead = undefined;
      throw error;
    });
    const read = JSON.stringify(texts);
    if (read === this.#lastRead) return false;
    this.#lastRead = read;
    Object.assign(this, mergeConfigFiles(this.#path, texts), { problem: undefined });
    for (const each of this.warnings) this.#options.logger.warn({}, each);
    return true;
  }

  /** An unusable file is reported, and the previous configuration stays in effect. */
  async reread(): Promise<void> {
    const { logger, metrics, setLogLevel } = this.#options;
    const path = this.#path;
    try {
      if (!(await this.read())) return;
      logger.info({ path }, "configuration read again");
      metrics.configReloaded(true);
      setLogLevel(this.config.logLevel);
      this.events.emit("change");
    } catch (thrown) {
      const problem = errorMessage(thrown);
      this.problem = problem;
      const message = "the changed configuration cannot be used; the previous one stays in effect";
      logger.error({ path, problems: problem.split("\n") }, message);
      metrics.configReloaded(false);
      this.events.emit("invalid", problem);
    }
  }
}

function withFlags(config: DaemonConfig, flags: DaemonFlags): DaemonConfig {
  const { cniConfDir } = flags;
  const { nodeConf } = config;
  const samePlace = nodeConf.primaryDir === nodeConf.cniConfDir;
  const primaryDir = samePlace ? cniConfDir : undefined;
  return {
    ...config,
    nodeConf: { ...nodeConf, ...omitUndefined({ cniConfDir, primaryDir }) },
  };
}

function flagLayer({ cniConfDir }: DaemonFlags): Layer {
  return ["command line", { cniConfDir }];
}
