import { hostname } from "node:os";
import { command, ExitCode, readInput } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { outputFlag, print } from "#cli/output-format.ts";
import { answerProbes } from "./answer.ts";
import { type Probe, probePods } from "./probe.ts";
import { type Report, report, reportText } from "./report.ts";
import { type PodList, startedPods, testPods } from "./test-pods.ts";

export const networkTestCommand = command({
  name: "network-test",
  positionals: "answer|probe|report",
  summary: "test a network from inside of its pods",
  description: `kubectl plexus test runs it. answer answers the probes of other pods. probe tests them from this pod: stdin has
what kubectl get pods -o json prints, stdout gets JSON. report prints the result: stdin has
{"started": ["POD", …], "pods": …, "probes": […], "notReady": ["NODE", …]}.`,
  flags: {
    network: textFlag("NAMESPACE/NAME", "the network"),
    output: outputFlag,
  },
  failsWhen: "the report has a problem",
  async run({ flags: { network, output: format }, positionals: [step] }, output, stopping) {
    switch (step) {
      case "answer":
        await answerProbes(hostname(), stopping);
        return ExitCode.Done;
      case "probe":
        output.out(JSON.stringify(await probe(JSON.parse(await readInput(output)), network)));
        return ExitCode.Done;
      case "report": {
        const value = reportOf(JSON.parse(await readInput(output)), network);
        print(output, format, { value, text: () => reportText(value) });
        return value.passed ? ExitCode.Done : ExitCode.Failed;
      }
      default:
        throw new Error("the argument must be answer, probe or report");
    }
  },
});

async function probe(list: PodList, network: string): Promise<Probe[]> {
  const pods = testPods(list, network);
  const own = pods.find(({ name }) => name === hostname());
  if (own === undefined) throw new Error(`pod ${hostname()} is not in the list`);
  return own.interface === "" ? [] : probePods(own, pods);
}

interface ReportInput {
  readonly started: readonly string[];
  readonly pods: PodList;
  readonly probes: readonly (readonly Probe[])[];
  /** Those of other releases do not have it. */
  readonly notReady?: readonly string[];
}

function reportOf({ started, pods, probes, notReady = [] }: ReportInput, network: string): Report {
  const tested = startedPods(started, testPods(pods, network));
  return report({ network, pods: tested, probes: probes.flat(), notReady });
}
