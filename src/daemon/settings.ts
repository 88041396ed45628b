import type { Logger } from "#engine/ports.ts";
import { type DaemonConfig, defaultConfig } from "./config/config.ts";
import { parseListenAddress } from "./config/listen-address.ts";
import { watchConfig } from "./config/watch.ts";
import type { DaemonFlags } from "./flags.ts";
import type { Metrics } from "./metrics/metrics.ts";

/** The configuration in force: the file's, or the default, with the command line over it. */
export interface Settings {
  current(): DaemonConfig;
  /** Called after the file has changed and is in force. */
  onChange(listener: () => void): void;
  /** Called when the file has changed and cannot be used; the one before stays in force. */
  onInvalid(listener: (message: string) => void): void;
  close(): void;
}

/** Reads the configuration and follows its file. @throws ConfigError or Error naming what is wrong */
export async function openSettings(options: {
  readonly flags: DaemonFlags;
  readonly logger: Logger;
  readonly setLogLevel: (level: string) => void;
  readonly metrics: Metrics;
}): Promise<Settings> {
  const { flags, logger, metrics } = options;
  const changed: (() => void)[] = [];
  const invalid: ((message: string) => void)[] = [];
  const listeners = {
    onChange: (listener: () => void): void => void changed.push(listener),
    onInvalid: (listener: (message: string) => void): void => void invalid.push(listener),
  };
  if (flags.config === undefined) {
    const config = withFlags({ ...defaultConfig, ...httpWithoutFile(flags) }, flags);
    return { current: () => config, ...listeners, close: () => undefined };
  }
  const watched = await watchConfig({
    path: flags.config,
    logger,
    onChange(config) {
      metrics.configRead("ok");
      options.setLogLevel(config.logLevel);
      for (const listener of changed) listener();
    },
    onInvalid(error) {
      metrics.configRead("invalid");
      for (const listener of invalid) listener(error.message);
    },
  });
  options.setLogLevel(watched.current().logLevel);
  return {
    current: () => withFlags(watched.current(), flags),
    ...listeners,
    close: () => watched.close(),
  };
}

/** A directory of manifests is for trying things: then nothing listens unless it is asked for. */
function httpWithoutFile(flags: DaemonFlags): Partial<DaemonConfig> {
  return flags.manifests === undefined ? {} : { http: undefined };
}

function withFlags(config: DaemonConfig, flags: DaemonFlags): DaemonConfig {
  const http = flags.http === undefined ? config.http : httpOf(flags.http);
  if (flags.cniConfDir === undefined) return { ...config, http };
  const { nodeConf } = config;
  const samePlace = nodeConf.primaryDir === nodeConf.cniConfDir;
  const dirs = {
    cniConfDir: flags.cniConfDir,
    ...(samePlace ? { primaryDir: flags.cniConfDir } : {}),
  };
  return { ...config, http, nodeConf: { ...nodeConf, ...dirs } };
}

function httpOf(flag: string): DaemonConfig["http"] {
  if (flag === "off") return undefined;
  const address = parseListenAddress(flag);
  if (address !== undefined) return address;
  throw new Error(`--http ${JSON.stringify(flag)}: must be "off", or an IP address and a port`);
}
