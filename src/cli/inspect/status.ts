import { command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { defaultHttpAddress } from "#daemon/config/config.ts";
import { errorMessage } from "#lib/error-message.ts";

export const statusCommand = command({
  name: "status",
  summary: "show the status of plexusd on this node",
  flags: { http: textFlag("ADDR:PORT", "where plexusd serves its health", defaultHttpAddress) },
  failsWhen: "plexusd is not ready or does not answer",
  async run({ flags }, output) {
    const base = `http://${flags.http}`;
    const ready = await get(`${base}/readyz`);
    const metrics = parseMetrics((await get(`${base}/metrics`)).text);
    for (const line of linesOf(metrics)) output.out(line);
    output.out(ready.ok ? "ready" : ready.text.trimEnd());
    return ready.ok ? ExitCode.Done : ExitCode.Failed;
  },
});

const shownMetrics: readonly (readonly [name: string, label: string])[] = [
  ["plexus_attachments", "attachments"],
  ["plexus_leftover_records", "leftovers"],
  ["plexus_pods_not_attached", "pods not attached"],
  ["plexus_inflight_requests", "calls being served"],
];

async function get(url: string): Promise<{ ok: boolean; text: string }> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5000) });
    return { ok: answer.ok, text: await answer.text() };
  } catch (error) {
    const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const message = `plexusd does not answer at ${url}: ${errorMessage(reason)}`;
    throw new Error(message, { cause: error });
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
    ...shownMetrics.flatMap(([name, label]) =>
      named(name).map(({ value }) => `${label}: ${value}`),
    ),
  ];
}
