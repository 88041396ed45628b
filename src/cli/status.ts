import { defaultHttpAddress } from "#daemon/config/config.ts";
import { type CliOutput, type Command, type CommandArguments, stringFlag } from "./command.ts";

/** `plexusctl status`. */
export const statusCommand: Command = {
  name: "status",
  synopsis: "[--http ADDR:PORT]",
  summary: "say how plexusd on this node is doing",
  help: `  --http ADDR:PORT   where plexusd serves its health (default ${defaultHttpAddress})

Exit code 1: it is not ready, or does not answer.`,
  flags: { http: { type: "string", default: defaultHttpAddress } },
  arity: 0,
  run: status,
};

/** What is shown of the metrics: their names, and what people call them. */
const shown: readonly (readonly [name: string, words: string])[] = [
  ["plexus_attachments", "attachments"],
  ["plexus_inflight_requests", "calls being served"],
];

async function status(args: CommandArguments, output: CliOutput): Promise<number> {
  const base = `http://${stringFlag(args, "http")}`;
  const ready = await get(`${base}/readyz`);
  const metrics = parseMetrics((await get(`${base}/metrics`)).text);
  for (const line of linesOf(metrics)) output.out(line);
  output.out(ready.ok ? "ready" : ready.text.trimEnd());
  return ready.ok ? 0 : 1;
}

async function get(url: string): Promise<{ ok: boolean; text: string }> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5000) });
    return { ok: answer.ok, text: await answer.text() };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`plexusd does not answer at ${url}: ${why}`, { cause: error });
  }
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

function parseMetrics(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) return [];
    const labels = [...(match[2] ?? "").matchAll(/([a-z_]+)="([^"]*)"/g)];
    return [
      {
        name: match[1] ?? "",
        labels: Object.fromEntries(labels.map((label) => [label[1], label[2]])),
        value: Number(match[3]),
      },
    ];
  });
}

function linesOf(samples: readonly Sample[]): string[] {
  const named = (name: string): Sample[] => samples.filter((sample) => sample.name === name);
  const build = named("plexus_build_info")[0]?.labels;
  const conf = named("plexus_conf_state").find((sample) => sample.value === 1)?.labels.state;
  const caches = named("plexus_apiserver_cache_synced").map(
    ({ labels, value }) => `${labels.resource}: ${value === 1 ? "listed" : "not listed yet"}`,
  );
  return [
    ...(build === undefined ? [] : [`plexusd ${build.version} (${build.commit})`]),
    ...(conf === undefined ? [] : [`node configuration: ${conf}`]),
    ...caches,
    ...shown.flatMap(([name, words]) => named(name).map(({ value }) => `${words}: ${value}`)),
  ];
}
