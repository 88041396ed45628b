import { askPlexusd, PlexusdAway, podPath } from "#cli/ask-plexusd.ts";
import {
  type CliOutput,
  type Command,
  type CommandArguments,
  ExitCode,
  stringFlag,
} from "#cli/command.ts";
import { podName } from "#cli/pod-name.ts";
import type { Advice, Explanation } from "#engine/explain/explanation.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { explanationText } from "./explanation-text.ts";

/** `plexusctl explain NAMESPACE/NAME`. */
export const explainCommand: Command = {
  name: "explain",
  synopsis: "[-o text|json] [--socket PATH] NAMESPACE/NAME",
  summary: "say what is the matter with a pod's networks, and what to do",
  help: `Asks plexusd on the pod's node; a name without a namespace is in "default". From elsewhere:
kubectl plexus explain NAMESPACE/NAME (deploy/kubectl-plexus).

  -o, --output   text (default), or json
  --socket PATH  the socket of plexusd (default ${defaultPaths.socket})

Exit code 1: something is the matter.`,
  flags: {
    output: { type: "string", short: "o", default: "text" },
    socket: { type: "string", default: defaultPaths.socket },
  },
  argumentCount: 1,
  run: explain,
};

async function explain(args: CommandArguments, output: CliOutput): Promise<ExitCode> {
  const format = stringFlag(args, "output");
  if (format !== "text" && format !== "json") {
    output.err(`--output must be text or json: ${JSON.stringify(format)}`);
    return ExitCode.WrongUsage;
  }
  const pod = podName(args.positionals[0]);
  try {
    const explanation = await askPlexusd<Explanation>(stringFlag(args, "socket"), podPath(pod));
    const lines = format === "json" ? [JSON.stringify(explanation)] : explanationText(explanation);
    for (const line of lines) output.out(line);
    return explanation.advice.ok ? ExitCode.Done : ExitCode.Failed;
  } catch (error) {
    if (!(error instanceof PlexusdAway)) throw error;
    const advice = plexusdAway(error);
    output.out(format === "json" ? JSON.stringify({ pod, advice }) : advice.sentence);
    return ExitCode.Failed;
  }
}

function plexusdAway({ message }: PlexusdAway): Advice {
  const sentence = `Nothing is known of the pod, as ${message}: see the pod of the DaemonSet plexus on this node and its log; until it runs, pods that start here wait for it.`;
  return { finding: "plexusd-away", sentence, ok: false };
}
