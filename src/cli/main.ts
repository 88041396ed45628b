import { constants } from "node:os";
import process from "node:process";
import { errorMessage } from "#lib/error-message.ts";
import { runCli } from "./cli.ts";

/** How long a command that is asked to end has for that. */
const stopMs = 10_000;

/** plexusctl. */
async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  const output = {
    out: (line: string) => process.stdout.write(`${line}\n`),
    err: (line: string) => process.stderr.write(`${line}\n`),
  };
  const stopping = new AbortController();
  // As the first process of a container it would not end by SIGTERM of itself.
  process.once("SIGTERM", () => {
    stopping.abort();
    setTimeout(() => process.exit(128 + constants.signals.SIGTERM), stopMs).unref();
  });
  process.exitCode = await runCli(argv, output, stopping.signal);
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusctl: ${errorMessage(error)}\n`);
  process.exitCode = 1;
});
