import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { type CliOutput, command, ExitCode } from "#cli/command.ts";
import { commonFlags, switchFlag, textFlag } from "#cli/flags.ts";
import { readRecords } from "#cli/inspect/read-records.ts";
import {
  type AttachmentRecord,
  attachmentsToDetach,
  isOfEarlierBoot,
  type RecordedAttachment,
  sandboxName,
} from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { defaultPaths, executableNames } from "#lib/files/default-paths.ts";
import { runProgram } from "#lib/run-program.ts";
import { FileRecordStore } from "#records/file-store.ts";

export const gcCommand = command({
  name: "gc",
  summary: "detach the networks of sandboxes that no longer exist",
  description: `Makes plexusd retry every teardown that failed, was interrupted or was never requested, without
waiting for the backoff, and prints each result. Runs the shim, which executes the plugins: run it
as root on the node, or in the container of deploy/overlays/agent.

With --forget it removes the record of one sandbox instead and executes no plugin: for a teardown
that can never succeed. It prints what stays allocated. This works without plexusd, too.`,
  flags: {
    "bin-dir": commonFlags.binDir,
    socket: commonFlags.socket,
    "mount-namespace": textFlag(
      "FILE",
      "execute the plugins in this mount namespace, such as /proc/1/ns/mnt, with the shim of the container image",
    ),
    forget: textFlag("SANDBOX", "forget this sandbox: its container ID or the beginning of it"),
    attached: switchFlag("with --forget: even if the sandbox is attached"),
    "state-dir": {
      ...commonFlags.stateDir,
      help: `with --forget: ${commonFlags.stateDir.help}`,
    },
  },
  failsWhen:
    "some teardowns still fail, plexusd is unavailable, or the sandbox cannot be forgotten",
  async run({ flags }, output) {
    if (flags.forget !== "") {
      const { attached, forget: sandbox } = flags;
      return forget({ stateDir: flags["state-dir"], sandbox, attached }, output);
    }
    const binDir = flags["bin-dir"];
    const mountNamespace = flags["mount-namespace"];
    const isInContainer = mountNamespace !== "";
    const shim = join(isInContainer ? defaultPaths.imageDir : binDir, executableNames.shim);
    const options = isInContainer ? [`--mount-namespace=${mountNamespace}`] : [];
    const command = [shim, "agent", "--once", ...options];
    const env = { CNI_PATH: binDir, PLEXUS_SOCKET: flags.socket };
    const { exitCode, stdout, stderr } = await runProgram(command, { env, mayFail: true });
    for (const line of linesOf(stdout)) output.out(line);
    for (const line of linesOf(stderr)) output.err(line);
    if (exitCode === 0) return ExitCode.Done;
    if (stdout === "" && stderr === "") throw new Error(`Command failed: ${command.join(" ")}`);
    return ExitCode.Failed;
  },
});

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

interface ForgetOptions {
  readonly stateDir: string;
  /** A container ID or the beginning of one. */
  readonly sandbox: string;
  /** Even if the sandbox is attached. */
  readonly attached: boolean;
}

/** Removes a sandbox's records; executes no plugin. @throws Error when one cannot be removed */
async function forget(options: ForgetOptions, output: CliOutput): Promise<ExitCode> {
  const { stateDir, sandbox, attached } = options;
  const { records } = await readRecords(stateDir);
  const ids = containersOf(records, sandbox);
  if (ids.length !== 1) {
    output.err(
      ids.length === 0
        ? `sandbox ${sandbox}: no record in ${stateDir}; plexusctl records lists them`
        : `sandbox ${sandbox}: the ID is not unique (${ids.join(", ")}); give more of it`,
    );
    return ExitCode.Failed;
  }
  const found = records.filter(({ containerId }) => containerId === ids[0]);
  const bootId = await readBootId();
  const blocking = found.find((record) => isAttached(record) && !namespaceIsGone(record, bootId));
  if (blocking !== undefined && !attached) {
    output.err(
      `${nameOf(blocking)}: attached, and its network namespace may exist; delete the pod, or add --attached`,
    );
    return ExitCode.Failed;
  }
  const store = await FileRecordStore.open(stateDir);
  for (const record of found) {
    for (const attachment of attachmentsToDetach(record, bootId)) output.out(lossOf(attachment));
    await store.finish(record);
    output.out(`${nameOf(record)}: forgotten; no plugin was executed`);
  }
  return ExitCode.Done;
}

/** The container with this ID, else all whose IDs begin with it. */
function containersOf(records: readonly AttachmentRecord[], sandbox: string): string[] {
  const ids = [...new Set(records.map(({ containerId }) => containerId))];
  if (ids.includes(sandbox)) return [sandbox];
  return ids.filter((id) => id.startsWith(sandbox)).sort();
}

function nameOf(record: AttachmentRecord): string {
  return `${sandboxName(record)} (${record.containerId}@${record.ifName})`;
}

/** A record without a failed teardown may belong to an ADD in progress. */
function isAttached({ attachments, teardown }: AttachmentRecord): boolean {
  return teardown === undefined || attachments.some(({ state }) => state === "attached");
}

/** What nothing can release once the record is gone. */
function lossOf({ displayName, ifName, state, result, device }: RecordedAttachment): string {
  const ips = Array.isArray(result?.ips) ? result.ips : [];
  const addresses = ips.map((ip) => String((ip as { address?: unknown }).address));
  const kept = [
    ...(addresses.length > 0 ? [`addresses ${addresses.join(" ")}`] : []),
    ...(state === "attached" ? ["its interface and rules on the host"] : []),
    ...(device === undefined ? [] : [`the settings of device ${device.id}`]),
  ];
  const what = kept.length > 0 ? kept.join(", ") : "what its plugins did before they failed";
  return `network ${displayName} (${ifName}, ${state}): Plexus will not release ${what}`;
}

/** Whether the namespace is certainly gone: in a container the host's directory may be missing. */
function namespaceIsGone(record: AttachmentRecord, bootId: string): boolean {
  const { netns } = record;
  if (netns === "" || isOfEarlierBoot(record, bootId)) return true;
  return !existsSync(netns) && existsSync(dirname(netns));
}
