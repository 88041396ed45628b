import { adminFlags, askAdmin } from "#cli/admin.ts";
import { command, ExitCode } from "#cli/command.ts";
import { switchFlag } from "#cli/flags.ts";
import { print } from "#cli/output-format.ts";
import { keyOfObject } from "#kube/objects.ts";
import type { JsonObject } from "#lib/json.ts";

/** kubectl plexus reads the lines. */
export const lostDefinitionsCommand = command({
  name: "lost-definitions",
  summary: "list the definitions that were deleted with their CRD, each with its manifest",
  flags: { ...adminFlags, discard: switchFlag("give them up: pods no longer get them") },
  failsWhen: "plexusd cannot remove them",
  async run({ flags }, output) {
    const method = flags.discard ? "DELETE" : "GET";
    const lost = await askAdmin<JsonObject[]>(flags.socket, "/lost-definitions", { method });
    const text = (): string[] => lost.map((each) => `${keyOfObject(each)} ${JSON.stringify(each)}`);
    print(output, flags.output, { value: lost, text });
    return ExitCode.Done;
  },
});
