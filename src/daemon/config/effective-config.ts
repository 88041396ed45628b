import type { DaemonFlags } from "#daemon/flags.ts";
import type { Metrics } from "#daemon/http/metrics.ts";
import type { Logger } from "#engine/ports.ts";
import { type DaemonConfig, defaultConfig } from "./config.ts";
import { parseListenAddress, parseMetricsAddress } from "./listen-address.ts";
import { watchConfig } from "./watch.ts";

/** The configuration in effect: the file or the default, overridden by the command line. */
export interface EffectiveConfig {
  current(): DaemonConfig;
  /** The text of the file in effect; empty without a file. */
  text(): string;
  onChange(listener: () => void): void;
  /** Calls the listener when a changed file cannot be used; the previous one stays in effect. */
  onInvalid(listener: (message: string) => void): void;
  close(): void;
}

/** Options of {@link openEffectiveConfig}. */
export interface EffectiveConfigOptions {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly metrics: Metrics;
}

/** Reads the configuration and follows its file. @throws ConfigError or Error if it is unusable */
export function openEffectiveConfig(options: EffectiveConfigOptions): Promise<EffectiveConfig> {
  const { config } = options.flags;
  return config === undefined ? configWithoutFile(options) : followFile(config, options);
}

async function configWithoutFile({ flags }: EffectiveConfigOptions): Promise<EffectiveConfig> {
  // With a directory of manifests, nothing listens without --http.
  const http = flags.source.kind === "manifests" ? undefined : defaultConfig.http;
  const config = withFlags({ ...defaultConfig, http }, flags);
  const never = (): void => undefined;
  const text = (): string => "";
  return { current: () => config, text, onChange: never, onInvalid: never, close: never };
}

async function followFile(path: string, options: EffectiveConfigOptions): Promise<EffectiveConfig> {
  const { flags, logger, metrics, setLogLevel } = options;
  const changeListeners: (() => void)[] = [];
  const invalidListeners: ((message: string) => void)[] = [];
  const watched = await watchConfig({
    path,
    logger,
    onChange(config) {
      metrics.configRead("ok");
      setLogLevel(config.logLevel);
      for (const listener of changeListeners) listener();
    },
    onInvalid(error) {
      metrics.configRead("invalid");
      for (const listener of invalidListeners) listener(error.message);
    },
  });
  setLogLevel(watched.current().logLevel);
  return {
    current: () => withFlags(watched.current(), flags),
    text: () => watched.text(),
    onChange: (listener) => void changeListeners.push(listener),
    onInvalid: (listener) => void invalidListeners.push(listener),
    close: () => watched.close(),
  };
}

function withFlags(config: DaemonConfig, flags: DaemonFlags): DaemonConfig {
  const http = flags.http === undefined ? config.http : parseHttpFlag(flags.http);
  const metricsAddress =
    flags.metrics === undefined ? config.metricsAddress : parseMetricsFlag(flags.metrics);
  const { cniConfDir } = flags;
  if (cniConfDir === undefined) return { ...config, http, metricsAddress };
  const { nodeConf } = config;
  const samePlace = nodeConf.primaryDir === nodeConf.cniConfDir;
  const primaryDir = samePlace ? cniConfDir : nodeConf.primaryDir;
  return { ...config, http, metricsAddress, nodeConf: { ...nodeConf, cniConfDir, primaryDir } };
}

function parseHttpFlag(flag: string): DaemonConfig["http"] {
  if (flag === "off") return undefined;
  const address = parseListenAddress(flag);
  if (address !== undefined) return address;
  throw new Error(`--http ${JSON.stringify(flag)}: must be "off", or an IP address and a port`);
}

function parseMetricsFlag(flag: string): DaemonConfig["metricsAddress"] {
  if (flag === "off") return undefined;
  const address = parseMetricsAddress(flag);
  if (address !== undefined) return address;
  throw new Error(
    `--metrics ${JSON.stringify(flag)}: must be "off", an IP address and a port, or *:PORT`,
  );
}
