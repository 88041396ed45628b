import { adminFlags, askAdmin, PlexusdUnavailable, podName, podPath } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag } from "#cli/flags.ts";
import { print } from "#cli/output-format.ts";
import type { Explanation } from "#engine/explain/explanation.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { readTokenTimes } from "#kube/api/token-times.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { explanationText } from "./explanation-text.ts";
import { lastEvents } from "./last-events.ts";

export const explainCommand = command({
  name: "explain",
  positionals: "NAMESPACE/NAME",
  summary: "explain what is wrong with a pod's networks, and what to do",
  description: `Asks plexusd on the pod's node; a name without a namespace is in "default". From elsewhere, use
kubectl plexus explain NAMESPACE/NAME (deploy/kubectl-plexus).`,
  flags: {
    ...adminFlags,
    "state-dir": commonFlags.stateDir,
    events: switchFlag(
      "print the pod's last events, too, from what kubectl get events -o json writes to stdin",
    ),
  },
  failsWhen: "something is wrong; 3: plexusd does not answer",
  async run({ flags, positionals }, output) {
    const pod = podName(positionals[0]);
    const answer = await explain(pod, flags);
    const text = () => ("node" in answer ? explanationText(answer) : [answer.advice.sentence]);
    print(output, flags.output, { value: answer, text });
    if (flags.events && flags.output === "text")
      for (const event of await lastEvents(output.input)) output.out(event);
    if (!("node" in answer)) return ExitCode.Unknown;
    return answer.advice.ok ? ExitCode.Done : ExitCode.Failed;
  },
});

/** What plexusd says of a pod, or that it does not answer. */
async function explain(
  pod: PodName,
  { socket, "state-dir": stateDir }: { readonly socket: string; readonly "state-dir": string },
): Promise<Explanation | Pick<Explanation, "pod" | "advice">> {
  try {
    return await askAdmin<Explanation>(socket, podPath(pod));
  } catch (error) {
    if (!(error instanceof PlexusdUnavailable)) throw error;
    const { expiresAt = 0 } = (await readTokenTimes(standalonePaths(stateDir).kubeconfig)) ?? {};
    const minutes = Math.floor(expiresAt / 60 - Date.now() / 60_000);
    const effect =
      minutes > 0
        ? `plexus-standalone serves pods that start here, for ${minutes} min at least`
        : "until it runs, pods that start here wait for it";
    const sentence = `Nothing is known of the pod, as ${error.message}; ${effect}.`;
    return { pod, advice: { finding: "DaemonUnavailable", sentence, ok: false } };
  }
}
