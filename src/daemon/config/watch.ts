import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { watchDirectory } from "#lib/files/watch-directory.ts";
import type { DaemonConfig } from "./config.ts";
import { parseConfig } from "./parse.ts";

/** Options of {@link watchConfig}. */
export interface WatchConfigOptions {
  readonly path: string;
  readonly logger: Logger;
  readonly onChange?: (config: DaemonConfig) => void;
  /** Called when the changed file cannot be used; the previous configuration stays in effect. */
  readonly onInvalid?: (error: Error) => void;
  /** How often the file is read without a reported change. @default 30000 */
  readonly pollMs?: number;
  /** Delay between a change and reading: a ConfigMap changes several files. @default 200 */
  readonly settleMs?: number;
}

/** A configuration that follows its file. */
export interface WatchedConfig {
  current(): DaemonConfig;
  text(): string;
  close(): void;
}

/**
 * Reads the configuration, and again after each change. It watches the directory, because a
 * ConfigMap's volume replaces a symlink next to the file. @throws ConfigError, or as node:fs does
 */
export async function watchConfig(options: WatchConfigOptions): Promise<WatchedConfig> {
  const { path, settleMs = 200, pollMs = 30_000 } = options;
  let lastRead = await readFile(path, "utf8");
  let inEffect = { text: lastRead, config: parseConfig(lastRead, path) };
  let pending: NodeJS.Timeout | undefined;

  const reread = async (): Promise<void> => {
    const now = await readFile(path, "utf8");
    if (now === lastRead) return;
    lastRead = now;
    inEffect = { text: now, config: parseConfig(now, path) };
    options.logger.info({ path }, "configuration read again");
    options.onChange?.(inEffect.config);
  };
  const rereadOrReport = (): void => {
    reread().catch((thrown: unknown) => {
      const error = thrown instanceof Error ? thrown : new Error(errorMessage(thrown));
      const fields = { path, problems: error.message.split("\n") };
      const message = "the changed configuration cannot be used; the previous one stays in effect";
      options.logger.error(fields, message);
      options.onInvalid?.(error);
    });
  };
  const watched = await watchDirectory(dirname(path), () => {
    pending ??= setTimeout(() => {
      pending = undefined;
      rereadOrReport();
    }, settleMs);
  });
  const poll = setInterval(() => {
    rereadOrReport();
    void watched.rearm();
  }, pollMs);
  poll.unref();
  return {
    current: () => inEffect.config,
    text: () => inEffect.text,
    close: () => {
      clearInterval(poll);
      clearTimeout(pending);
      watched.close();
    },
  };
}
