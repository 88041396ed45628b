import { command, ExitCode } from "#cli/command.ts";
import { textFlag, wholeSeconds } from "#cli/flags.ts";
import { ApiClient } from "#kube/api/client.ts";
import { inClusterCredentials } from "#kube/api/in-cluster.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { type Progress, Uninstallers } from "./uninstallers.ts";

const pollMs = 1000;
/** Between two lines about the progress. */
const lineMs = 10_000;
/**
 * The time for a node, where there are many: kube-controller-manager makes about 20 pods a second. To
 * uninstall, it deletes the pods of plexusd and of the checks first.
 */
const nodeMs = { check: 100, uninstall: 200 } as const;

/** `plexusctl uninstall-cluster`: what deploy/uninstall and the chart's pre-delete hook run once. */
export const uninstallClusterCommand = command({
  name: "uninstall-cluster",
  summary: "hand all nodes back: what deploy/uninstall and the chart's pre-delete hook run",
  description: `Expects the DaemonSet plexus-uninstall, whose pods check their nodes. If all nodes can be handed
back, deletes the DaemonSet plexus and lets the pods of plexus-uninstall uninstall. Otherwise changes
nothing.`,
  flags: {
    namespace: textFlag("NAMESPACE", "of both DaemonSets", "kube-system"),
    host: textFlag("HOST", "of the API server; with the pod's service account"),
    port: textFlag("PORT", "of the API server", "443"),
    kubeconfig: textFlag("FILE", "instead of --host and --port"),
    seconds: textFlag("N", "how long to wait; 0.3 for a node are needed", "270"),
  },
  failsWhen: "a node cannot be handed back, or does not answer in time; stderr has the reasons",
  async run({ flags }, output) {
    const { host, port, kubeconfig } = flags;
    const limitMs = 1000 * wholeSeconds("--seconds", flags.seconds);
    const client = new ApiClient(
      kubeconfig === ""
        ? inClusterCredentials({ host, port })
        : await kubeconfigCredentials(kubeconfig),
    );
    try {
      const uninstallers = new Uninstallers(client, flags.namespace);
      const problems = await uninstall(uninstallers, { limitMs, say: output.out });
      for (const line of problems) output.err(line);
      return problems.length === 0 ? ExitCode.Done : ExitCode.Failed;
    } finally {
      client.close();
    }
  },
});

/** Hands all nodes back. Returns why that was not possible. @throws ApiError */
async function uninstall(
  uninstallers: Uninstallers,
  { limitMs, say }: { readonly limitMs: number; readonly say: (line: string) => void },
): Promise<string[]> {
  const endsAt = performance.now() + limitMs;
  const checked = await whenSettled(uninstallers, {
    endsAt: (nodes) => endsAt - Math.max(limitMs / 2, nodes * nodeMs.uninstall),
    say: (progress) => say(`checks: ${progress}`),
  });
  if (!checked.isDone) {
    const unchanged = "Plexus is not uninstalled, and nothing was changed.";
    return [...problemsOf(checked), unchanged, ...limitProblem(checked, limitMs)];
  }
  await uninstallers.deleteDaemon();
  // An uninstaller that starts while plexusd runs fails, and is restarted only after ten seconds.
  while ((await uninstallers.hasDaemonPods()) && performance.now() < endsAt) await pause(pollMs);
  await uninstallers.startUninstalling();
  const done = await whenSettled(uninstallers, {
    endsAt: () => endsAt,
    isPatient: true,
    say: (progress) => say(`uninstallations: ${progress}`),
  });
  if (done.isDone) return [];
  return [
    ...problemsOf(done),
    "plexusd is deleted, but these nodes are not handed back: uninstall again.",
  ];
}

interface Waiting {
  /** The limit with so many nodes, by `performance.now()`. */
  readonly endsAt: (nodes: number) => number;
  /** Whether uninstallers that have refused may yet succeed. @default false */
  readonly isPatient?: boolean;
  readonly say: (progress: string) => void;
}

/** Waits until all uninstallers are done or, unless patient, have refused. @throws ApiError */
async function whenSettled(
  uninstallers: Uninstallers,
  { endsAt, isPatient = false, say }: Waiting,
): Promise<Progress> {
  let nextLineAt = performance.now() + lineMs;
  for (;;) {
    const progress = await uninstallers.progress();
    const { isDone, nodes, done, waiting, problems } = progress;
    const isRefused = problems.length > 0 && waiting.length === 0 && !isPatient;
    const now = performance.now();
    if (isDone || isRefused || now > endsAt(nodes)) return progress;
    if (now > nextLineAt) {
      say(`${done} of ${nodes} nodes are done`);
      nextLineAt = now + lineMs;
    }
    // Each time, the pods of all nodes are read.
    await pause(Math.max(pollMs, 2 * nodes));
  }
}

function problemsOf({ waiting, problems }: Progress): string[] {
  return [...problems, ...waiting.map((node) => `${node}: no answer of the uninstaller in time`)];
}

/** What to do if the limit is too short for the nodes. */
function limitProblem({ nodes }: Progress, limitMs: number): string[] {
  const seconds = Math.ceil((nodes * (nodeMs.check + nodeMs.uninstall)) / 1000);
  if (1000 * seconds <= limitMs) return [];
  return [`${nodes} nodes need ${seconds} seconds: see "Uninstall" in docs/operations/helm.md.`];
}
