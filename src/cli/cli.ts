import { checkCommand } from "#cli/inspect/check/check.ts";
import { configCheckCommand } from "#cli/inspect/config-check.ts";
import { configShowCommand } from "#cli/inspect/config-show.ts";
import { doctorCommand } from "#cli/inspect/doctor/doctor.ts";
import { explainCommand } from "#cli/inspect/explain/explain.ts";
import { lostDefinitionsCommand } from "#cli/inspect/lost-definitions.ts";
import { networkTestCommand } from "#cli/inspect/network-test/network-test.ts";
import { networksCommand } from "#cli/inspect/networks/networks.ts";
import { recordsCommand } from "#cli/inspect/records.ts";
import { statusCommand } from "#cli/inspect/status.ts";
import { versionCommand } from "#cli/inspect/version.ts";
import { migrateCommand } from "#cli/migrate/migrate.ts";
import { dockerCommand } from "#cli/node/docker.ts";
import { endpointsCommand } from "#cli/node/endpoints.ts";
import { gcCommand } from "#cli/node/gc.ts";
import { installCommand } from "#cli/node/install.ts";
import { installPluginsCommand } from "#cli/node/reference-plugins.ts";
import { refreshCommand } from "#cli/node/refresh.ts";
import { uninstallCommand } from "#cli/node/uninstall.ts";
import { uninstallClusterCommand } from "#cli/node/uninstall-cluster.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type CliStreams, type Command, ExitCode } from "./command.ts";
import type { Flag } from "./flags.ts";
import { columns } from "./output-format.ts";
import { parseCommandLine } from "./parse.ts";

const commands: readonly Command[] = [
  explainCommand,
  doctorCommand,
  statusCommand,
  networksCommand,
  lostDefinitionsCommand,
  recordsCommand,
  refreshCommand,
  gcCommand,
  checkCommand,
  configShowCommand,
  configCheckCommand,
  installCommand,
  uninstallCommand,
  migrateCommand,
  versionCommand,
];

/** What manifests and units start, and no operator calls: not in the overview. */
const programs: readonly Command[] = [
  installPluginsCommand,
  uninstallClusterCommand,
  dockerCommand,
  endpointsCommand,
  networkTestCommand,
];

const neverStopping = new AbortController().signal;
const defaultStopMs = 1000;

/** How long the command of a command line may take to end, in milliseconds. */
export function stopMsOf(argv: readonly string[]): number {
  return commandOf(argv)?.stopMs ?? defaultStopMs;
}

/** Runs one command, until `stopping` is aborted at most, and returns the process's exit code. */
export async function runCli(
  argv: readonly string[],
  output: CliStreams,
  stopping: AbortSignal = neverStopping,
): Promise<ExitCode> {
  if (argv[0] === "help") return runCli([...argv.slice(1), "--help"], output, stopping);
  if (argv[0] === "--version") return runCli(["version", ...argv.slice(1)], output, stopping);
  const command = commandOf(argv);
  if (command === undefined) return noCommand(argv, output);
  const rest = argv.slice(wordsOf(command).length);
  if (rest.includes("--help") || rest.includes("-h")) {
    output.out(helpOf(command));
    return ExitCode.Done;
  }
  const parsed = parseCommandLine(command, rest);
  if ("problem" in parsed) {
    output.err(usageOf(command));
    output.err(`plexusctl ${command.name}: ${parsed.problem}`);
    return ExitCode.WrongUsage;
  }
  try {
    return await command.run(parsed.line, output, stopping);
  } catch (error) {
    output.err(`plexusctl ${command.name}: ${errorMessage(error)}`);
    return ExitCode.Failed;
  }
}

function commandOf(argv: readonly string[]): Command | undefined {
  return [...commands, ...programs].find((command) =>
    wordsOf(command).every((word, i) => argv[i] === word),
  );
}

function wordsOf({ name }: Command): string[] {
  return name.split(" ");
}

function noCommand([word, ...rest]: readonly string[], output: CliStreams): ExitCode {
  if (word === "--help" || word === "-h") {
    output.out(overview());
    return ExitCode.Done;
  }
  output.err(word === undefined ? overview() : unknownCommand(word, rest));
  return ExitCode.WrongUsage;
}

function unknownCommand(word: string, rest: readonly string[]): string {
  const names = commands.map(({ name }) => name);
  const meant = didYouMean(word, names) || didYouMean([word, ...rest].join(" "), names);
  const list = meant || "; plexusctl --help lists the commands";
  return `plexusctl: unknown command ${JSON.stringify(word)}${list}`;
}

/** The list of commands. */
function overview(): string {
  return [
    "plexusctl: Plexus on this node",
    "",
    "usage: plexusctl COMMAND [flags]; plexusctl help COMMAND",
    "",
    ...columns(commands.map(({ name, summary }) => [`  ${name}`, summary])),
  ].join("\n");
}

/** The usage of one command in one line. */
function usageOf({ name, flags, positionals }: Command): string {
  const words = [name, Object.keys(flags).length > 0 && "[flags]", positionals];
  return `usage: plexusctl ${words.filter(Boolean).join(" ")}`;
}

/** What `plexusctl COMMAND --help` prints. */
function helpOf(command: Command): string {
  const { name, summary, description, flags, failsWhen } = command;
  const paragraphs = [
    `plexusctl ${name}: ${summary}`,
    usageOf(command),
    description,
    Object.entries(flags).map(flagText).join("\n"),
    failsWhen && `Exit code 1: ${failsWhen}.`,
  ];
  return paragraphs.filter(Boolean).join("\n\n");
}

/** The help is below the flag, as for kubectl: the terminal wraps it. */
function flagText([name, { short, value = "", help, fallback }]: [string, Flag]): string {
  const dashed = short === undefined ? `--${name}` : `-${short}, --${name}`;
  const note = typeof fallback === "string" && fallback !== "" ? ` (default ${fallback})` : "";
  return `${`  ${dashed} ${value}`.trimEnd()}\n      ${help}${note}`;
}
