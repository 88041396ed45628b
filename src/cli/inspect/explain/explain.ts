import { askPlexusd, PlexusdAway, podPath } from "#cli/ask-plexusd.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { podName } from "#cli/pod-name.ts";
import { reportFlags, reportFlagsHelp, wantsJson } from "#cli/report-flags.ts";
import type { Advice, Explanation } from "#engine/explain/explanation.ts";
import { explanationText } from "./explanation-text.ts";

/** `plexusctl explain NAMESPACE/NAME`. */
export const explainCommand: Command = {
  name: "explain",
  synopsis: "[-o text|json] [--socket PATH] NAMESPACE/NAME",
  summary: "say what is the matter with a pod's networks, and what to do",
  help: `Asks plexusd on the pod's node; a name without a namespace is in "default". From elsewhere:
kubectl plexus explain NAMESPACE/NAME (deploy/kubectl-plexus).

${reportFlagsHelp}

Exit code 1: something is the matter.`,
  ...reportFlags,
  argumentCount: 1,
  run: explain,
};

async function explain(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const pod = podName(args.positionals[0]);
  try {
    const explanation = await askPlexusd<Explanation>(stringFlag(args, "socket"), podPath(pod));
    const lines = wantsJson(args) ? [JSON.stringify(explanation)] : explanationText(explanation);
    for (const line of lines) output.out(line);
    return explanation.advice.ok ? ExitCode.Done : ExitCode.Failed;
  } catch (error) {
    if (!(error instanceof PlexusdAway)) throw error;
    const advice = plexusdAway(error);
    output.out(wantsJson(args) ? JSON.stringify({ pod, advice }) : advice.sentence);
    return ExitCode.Failed;
  }
}

function plexusdAway({ message }: PlexusdAway): Advice {
  const sentence = `Nothing is known of the pod, as ${message}: see the pod of the DaemonSet plexus on this node and its log; until it runs, pods that start here wait for it.`;
  return { finding: "plexusd-away", sentence, ok: false };
}
