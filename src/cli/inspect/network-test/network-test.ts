import { hostname } from "node:os";
import { type CliStreams, type CommandLine, command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { outputFlag, print } from "#cli/output-format.ts";
import { answerProbes } from "./answer.ts";
import { type Probe, probePods } from "./probe.ts";
import { report, reportText } from "./report.ts";
import { type PodList, startedPods, testPods } from "./test-pods.ts";

const flags = {
  network: textFlag("NAMESPACE/NAME", "the network"),
  output: outputFlag,
} as const;

export const networkTestCommand = command({
  name: "network-test",
  positionals: "answer|probe|report",
  summary: "test a network from inside of its pods",
  description: `kubectl plexus test runs it. answer answers the probes of other pods. probe tests them from this pod: stdin has
what kubectl get pods -o json prints, stdout gets JSON. report prints the result: stdin has
{"started": ["POD", …], "pods": …, "probes": […], "notReady": ["NODE", …]}.`,
  flags,
  failsWhen: "the report has a problem",
  async run(line, output, stopping) {
    const [step] = line.positionals;
    if (step === "answer") await answerProbes(hostname(), stopping);
    else if (step === "probe") await probe(line, output);
    else if (step === "report") return printReport(line, output);
    else throw new Error("the argument must be answer, probe or report");
    return ExitCode.Done;
  },
});

type Line = CommandLine<typeof flags>;

async function probe({ flags: { network } }: Line, output: CliStreams): Promise<void> {
  const pods = testPods(await readInput<PodList>(output), network);
  const own = pods.find(({ name }) => name === hostname());
  if (own === undefined) throw new Error(`pod ${hostname()} is not in the list`);
  output.out(JSON.stringify(own.interface === "" ? [] : await probePods(own, pods)));
}

async function printReport({ flags }: Line, output: CliStreams): Promise<ExitCode> {
  interface Input {
    readonly started: readonly string[];
    readonly pods: PodList;
    readonly probes: readonly (readonly Probe[])[];
    /** Those of other releases do not have it. */
    readonly notReady?: readonly string[];
  }
  const { started, pods, probes, notReady = [] } = await readInput<Input>(output);
  const { network } = flags;
  const value = report({
    ...{ network, pods: startedPods(started, testPods(pods, network)) },
    ...{ probes: probes.flat(), notReady },
  });
  print(output, flags.output, { value, text: () => reportText(value) });
  return value.passed ? ExitCode.Done : ExitCode.Failed;
}

async function readInput<T>({ input = (async function* () {})() }: CliStreams): Promise<T> {
  return JSON.parse(Buffer.concat(await Array.fromAsync(input)).toString()) as T;
}
