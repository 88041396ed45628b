import { adminFlags, askAdmin, PlexusdUnavailable, podName, podPath } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { switchFlag } from "#cli/flags.ts";
import { print } from "#cli/output-format.ts";
import type { Explanation } from "#engine/explain/explanation.ts";
import type { PodName } from "#engine/ports/cluster.ts";
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
    events: switchFlag(
      "print the pod's last events, too, from what kubectl get events -o json writes to stdin",
    ),
  },
  failsWhen: "something is wrong",
  async run({ flags, positionals }, output) {
    const pod = podName(positionals[0]);
    const answer = await explain(flags.socket, pod);
    const text = () => ("node" in answer ? explanationText(answer) : [answer.advice.sentence]);
    print(output, flags.output, { value: answer, text });
    if (flags.events && flags.output === "text")
      for (const event of await lastEvents(output.input)) output.out(event);
    return answer.advice.ok ? ExitCode.Done : ExitCode.Failed;
  },
});

/** What plexusd says of a pod, or that it does not answer. */
async function explain(
  socket: string,
  pod: PodName,
): Promise<Explanation | Pick<Explanation, "pod" | "advice">> {
  try {
    return await askAdmin<Explanation>(socket, podPath(pod));
  } catch (error) {
    if (!(error instanceof PlexusdUnavailable)) throw error;
    const sentence = `Nothing is known of the pod, as ${error.message}; until it runs, pods that start here wait for it.`;
    return { pod, advice: { finding: "DaemonUnavailable", sentence, ok: false } };
  }
}
