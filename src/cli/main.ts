import process from "node:process";
import { errorMessage } from "#lib/error-message.ts";
import { runCli } from "./cli.ts";

/** plexusctl. */
async function main(): Promise<void> {
  process.exitCode = await runCli(process.argv.slice(2), {
    out: (line) => process.stdout.write(`${line}\n`),
    err: (line) => process.stderr.write(`${line}\n`),
    untilStopped: () =>
      new Promise((resolve) => {
        for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
      }),
  });
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusctl: ${errorMessage(error)}\n`);
  process.exitCode = 1;
});
