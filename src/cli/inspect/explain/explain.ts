import { adminFlags, askAdmin, PlexusdUnavailable, podPath } from "#cli/admin.ts";
import { type CliStreams, type CommandLine, command, ExitCode } from "#cli/command.ts";
import { switchFlag } from "#cli/flags.ts";
import { print } from "#cli/output-format.ts";
import { podName } from "#cli/pod-name.ts";
import type { Advice, Explanation } from "#engine/explain/explanation.ts";
import { explanationText } from "./explanation-text.ts";
import { lastEvents } from "./last-events.ts";

const flags = {
  ...adminFlags,
  events: switchFlag(
    "print the pod's last events, too, from what kubectl get events -o json writes to stdin",
  ),
} as const;

export const explainCommand = command({
  name: "explain",
  positionals: "NAMESPACE/NAME",
  summary: "explain what is wrong with a pod's networks, and what to do",
  description: `Asks plexusd on the pod's node; a name without a namespace is in "default". From elsewhere, use
kubectl plexus explain NAMESPACE/NAME (deploy/kubectl-plexus).`,
  flags,
  failsWhen: "something is wrong",
  async run(line, output) {
    const code = await explain(line, output);
    if (line.flags.events && line.flags.output === "text")
      for (const event of await lastEvents(output.input)) output.out(event);
    return code;
  },
});

async function explain(
  { flags: { socket, output: format }, positionals }: CommandLine<typeof flags>,
  output: CliStreams,
): Promise<ExitCode> {
  const pod = podName(positionals[0]);
  try {
    const explanation = await askAdmin<Explanation>(socket, podPath(pod));
    print(output, format, { value: explanation, text: () => explanationText(explanation) });
    return explanation.advice.ok ? ExitCode.Done : ExitCode.Failed;
  } catch (error) {
    if (!(error instanceof PlexusdUnavailable)) throw error;
    const advice = plexusdAway(error);
    print(output, format, { value: { pod, advice }, text: () => [advice.sentence] });
    return ExitCode.Failed;
  }
}

function plexusdAway({ message }: PlexusdUnavailable): Advice {
  const sentence = `Nothing is known of the pod, as ${message}; until it runs, pods that start here wait for it.`;
  return { finding: "DaemonUnavailable", sentence, ok: false };
}
