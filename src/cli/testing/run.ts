import { join } from "node:path";
import { Readable } from "node:stream";
import { onTestFinished } from "vitest";
import { runCli } from "#cli/cli.ts";
import { startAdminServer } from "#daemon/admin/admin-server.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/** What plexusctl prints for these words, line by line, with `input` on its stdin. */
export async function linesOf(argv: readonly string[], input = "", stopping?: AbortSignal) {
  const [out, err]: [string[], string[]] = [[], []];
  const output = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  const streams = { ...output, input: Readable.from([Buffer.from(input)]) };
  return { code: await runCli(argv, streams, stopping), out, err };
}

/** What plexusctl prints for these words. */
export async function run(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, out, err } = await linesOf(argv);
  return { code, out: out.join("\n"), err: err.join("\n") };
}

type Answers = Parameters<typeof startAdminServer>[0]["answers"];

/** A plexusd that answers plexusctl so, and refuses what else it is asked. */
export async function startPlexusd(answers: Partial<Answers>) {
  const socket = join(await temporaryDirectory(), "plexus.sock");
  const refuse = () => Promise.reject(new Error("not asked"));
  const server = await startAdminServer({
    socketPath: adminSocketPath(socket),
    answers: {
      ...{ node: refuse, networks: refuse, pod: refuse, refresh: refuse },
      lostDefinitions: refuse,
      ...{ noteFailedAdd: () => undefined, readiness: () => [], ...answers },
    },
    logger: new FakeLogger(),
  });
  onTestFinished(() => server.close());
  return { socket, server };
}
