import process from "node:process";
import { runCli } from "./cli.ts";

/** plexusctl. */
async function main(): Promise<void> {
  process.exitCode = await runCli(process.argv.slice(2), {
    out: (line) => process.stdout.write(`${line}\n`),
    err: (line) => process.stderr.write(`${line}\n`),
  });
}

main().catch((error: unknown) => {
  process.stderr.write(`plexusctl: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
