import { EventEmitter } from "node:events";
import type { DaemonFlags } from "#daemon/flags.ts";
import type { Metrics } from "#daemon/http/metrics.ts";
import type { Logger } from "#engine/ports.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type DaemonConfig, defaultConfig } from "./config.ts";
import { parseListenAddress, parseMetricsAddress } from "./listen-address.ts";
import { watchConfig } from "./watch.ts";

/** The configuration in effect: the file or the default, overridden by the command line. */
export interface EffectiveConfig {
  current(): DaemonConfig;
  /** The text of the file in effect; empty without a file. */
  text(): string;
  onChange(listener: () => void): unknown;
  /** Calls the listener when a changed file cannot be used; the previous one stays in effect. */
  onInvalid(listener: (message: string) => void): unknown;
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
  const events = new EventEmitter<{ change: []; invalid: [message: string] }>();
  const { current, text, close } = await watchConfig({
    path,
    logger,
    onChange({ logLevel }) {
      metrics.configRead("ok");
      setLogLevel(logLevel);
      events.emit("change");
    },
    onInvalid({ message }) {
      metrics.configRead("invalid");
      events.emit("invalid", message);
    },
  });
  setLogLevel(current().logLevel);
  return {
    current: () => withFlags(current(), flags),
    text,
    onChange: (listener) => events.on("change", listener),
    onInvalid: (listener) => events.on("invalid", listener),
    close,
  };
}

function withFlags(config: DaemonConfig, flags: DaemonFlags): DaemonConfig {
  const { http, metrics, cniConfDir } = flags;
  const { nodeConf } = config;
  const samePlace = nodeConf.primaryDir === nodeConf.cniConfDir;
  const primaryDir = samePlace ? cniConfDir : undefined;
  return {
    ...config,
    ...(http === undefined ? {} : { http: httpAddress(http) }),
    ...(metrics === undefined ? {} : { metricsAddress: metricsAddress(metrics) }),
    nodeConf: { ...nodeConf, ...omitUndefined({ cniConfDir, primaryDir }) },
  };
}

function httpAddress(flag: string): DaemonConfig["http"] {
  const address = parseListenAddress(flag);
  if (address !== undefined || flag === "off") return address;
  throw new Error(`--http ${JSON.stringify(flag)}: must be "off", or an IP address and a port`);
}

function metricsAddress(flag: string): DaemonConfig["metricsAddress"] {
  const address = parseMetricsAddress(flag);
  if (address !== undefined || flag === "off") return address;
  const wanted = 'must be "off", an IP address and a port, or *:PORT';
  throw new Error(`--metrics ${JSON.stringify(flag)}: ${wanted}`);
}
