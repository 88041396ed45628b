import { constants } from "node:os";
import process from "node:process";
import { errorMessage } from "#lib/error-message.ts";
import { oneLine, printableLines } from "#lib/one-line.ts";
import { runCli, stopMsOf } from "./cli.ts";

async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  const output = {
    out: (line: string) => process.stdout.write(`${printableLines(line)}\n`),
    err: (line: string) => process.stderr.write(`${printableLines(line)}\n`),
    // Opened only if a command reads it.
    get input() {
      return process.stdin;
    },
  };
  const stopping = new AbortController();
  // The first process of a container ignores SIGTERM unless it handles it.
  process.once("SIGTERM", () => {
    stopping.abort();
    setTimeout(() => process.exit(128 + constants.signals.SIGTERM), stopMsOf(argv)).unref();
  });
  // The reader of a pipe may stop before the end: `plexusctl doctor | head`.
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    process.exit(code === "EPIPE" ? 0 : 1);
  });
  process.exitCode = await runCli(argv, output, stopping.signal);
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusctl: ${oneLine(errorMessage(error))}\n`);
  process.exitCode = 1;
});
