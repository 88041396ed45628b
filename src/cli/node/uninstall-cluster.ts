import { command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { ApiClient } from "#kube/api/client.ts";
import { inClusterCredentials } from "#kube/api/in-cluster.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { type Progress, Uninstallers } from "./uninstallers.ts";

const pollMs = 1000;

/** `plexusctl uninstall-cluster`: what the chart's pre-delete hook runs once. */
export const uninstallClusterCommand = command({
  name: "uninstall-cluster",
  summary: "hand all nodes back: what the chart's pre-delete hook runs",
  description: `Expects the DaemonSet plexus-uninstall, whose pods check their nodes. If all nodes can be handed
back, deletes the DaemonSet plexus and lets the pods of plexus-uninstall uninstall. Otherwise changes
nothing.`,
  flags: {
    namespace: textFlag("NAMESPACE", "of both DaemonSets", "kube-system"),
    host: textFlag("HOST", "of the API server; with the pod's service account"),
    port: textFlag("PORT", "of the API server", "443"),
    kubeconfig: textFlag("FILE", "instead of --host and --port"),
    "check-seconds": textFlag("N", "how long to wait for the checks of all nodes", "120"),
    "uninstall-seconds": textFlag("N", "how long to wait for the uninstallations", "120"),
  },
  failsWhen: "a node cannot be handed back, or does not answer in time; stderr has the reasons",
  async run({ flags }, output) {
    const { host, port, kubeconfig } = flags;
    const client = new ApiClient(
      kubeconfig === ""
        ? inClusterCredentials({ host, port })
        : await kubeconfigCredentials(kubeconfig),
    );
    try {
      const timings = {
        checkMs: 1000 * Number(flags["check-seconds"]),
        uninstallMs: 1000 * Number(flags["uninstall-seconds"]),
      };
      const problems = await uninstall(new Uninstallers(client, flags.namespace), timings);
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
  { checkMs, uninstallMs }: { readonly checkMs: number; readonly uninstallMs: number },
): Promise<string[]> {
  const checked = await whenSettled(uninstallers, performance.now() + checkMs);
  if (!checked.isDone) {
    return [...problemsOf(checked), "Plexus is not uninstalled, and nothing was changed."];
  }
  const endsAt = performance.now() + uninstallMs;
  await uninstallers.deleteDaemon();
  // An uninstaller that starts while plexusd runs fails, and is restarted only after ten seconds.
  while ((await uninstallers.hasDaemonPods()) && performance.now() < endsAt) await pause(pollMs);
  await uninstallers.startUninstalling();
  const done = await whenSettled(uninstallers, endsAt, { isPatient: true });
  if (done.isDone) return [];
  return [
    ...problemsOf(done),
    "plexusd is deleted, but these nodes are not handed back: uninstall again.",
  ];
}

/** Waits until all uninstallers are done or, unless patient, have refused. @throws ApiError */
async function whenSettled(
  uninstallers: Uninstallers,
  endsAt: number,
  { isPatient = false } = {},
): Promise<Progress> {
  for (;;) {
    const progress = await uninstallers.progress();
    const { isDone, waiting, problems } = progress;
    const isRefused = problems.length > 0 && waiting.length === 0 && !isPatient;
    if (isDone || isRefused || performance.now() > endsAt) return progress;
    await pause(pollMs);
  }
}

function problemsOf({ waiting, problems }: Progress): string[] {
  return [...problems, ...waiting.map((node) => `${node}: no answer of the uninstaller in time`)];
}
