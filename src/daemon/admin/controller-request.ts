import * as z from "zod";
import { parseCniArgs } from "#cni/args.ts";
import { parseJson, readJsonObject } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { HotPlugQueue } from "#daemon/pods/hot-plug.ts";
import { selectionsOf } from "#daemon/pods/watched-pod.ts";
import { isAsRequested } from "#engine/hotplug/changes.ts";
import { type HotPlugOutcome, problemsOf } from "#engine/hotplug/reports/outcome.ts";
import { problemText } from "#engine/hotplug/reports/problem-texts.ts";
import type { Pod, PodIdentity } from "#engine/ports/cluster.ts";
import { type RecordReader, recordsOf } from "#engine/ports/records.ts";
import { mayRun, type RecordedAttachment } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { parseWith } from "#lib/parsing/parse-with.ts";

/** Multus's path for controllers, which are made for it [H-10]. Elsewhere a delegate is a plugin. */
export const controllerPage = "delegate";
/** Far more than a definition may have. */
export const maxControllerBytes = 1024 * 1024;

/** The version in which Multus answers. */
const resultVersion = "1.0.0";

/** Go writes nil as null. Attributes count as the pod's annotation has them. */
const requestSchema = z.strictObject({
  env: z.looseObject({
    CNI_COMMAND: z.enum(["ADD", "CHECK", "DEL"]),
    CNI_IFNAME: z.string().max(15).default(""),
    CNI_ARGS: z.string().max(4096),
  }),
  config: z.base64(),
  interfaceAttributes: z.looseObject({}).nullish(),
});

interface ControllerRequest {
  readonly command: "ADD" | "CHECK" | "DEL";
  readonly pod: PodIdentity;
  /** Empty for an element without an interface. */
  readonly ifName: string;
  /** The name in the network's configuration. */
  readonly network: string;
}

/**
 * Serves a request for Multus's endpoint `/delegate` ([H-10]). A controller that calls it acts for
 * an edited annotation, so Plexus carries out the annotation, with its definitions, rules and
 * records. The answer says whether the controller's network is attached, or no longer attached.
 * @returns the answer in JSON; undefined for an empty one
 * @throws CniError when the request is invalid, or the pod has not got what it asks for
 */
export async function serveController(
  body: string,
  {
    hotPlug,
    records,
  }: { readonly hotPlug: Pick<HotPlugQueue, "settle">; readonly records: RecordReader },
): Promise<JsonObject | undefined> {
  const request = parseRequest(body);
  const settled = request.command === "CHECK" ? undefined : await hotPlug.settle(request.pod);
  const all = await findAttachments(records, request);
  if (request.command === "DEL") {
    if (all.length > 0) throw notDone(request, settled, "is still attached");
    return undefined;
  }
  const found = all.find((each) => isWanted(each, settled?.pod));
  if (found?.result === undefined) {
    const state = all.length === 0 ? "is not attached" : "is not attached as requested";
    throw notDone(request, settled, state);
  }
  if (request.command === "CHECK") return undefined;
  const result = parseResult(found.result, { fallbackVersion: recordedList(found).cniVersion });
  return { Result: formatResult(result, resultVersion) };
}

/** @throws CniError 100 naming the wrong member */
function parseRequest(body: string): ControllerRequest {
  const { env, config } = checked(parseJson(body, "the request"));
  const args = new Map(parseCniArgs(env.CNI_ARGS));
  const textOf = (key: string): string => {
    const value = args.get(key) ?? "";
    if (value !== "") return value;
    throw new CniError("InvalidRequest", `the request: env.CNI_ARGS has no ${key}`);
  };
  const conf = readJsonObject(Buffer.from(config, "base64").toString(), "the request: config");
  if (typeof conf.name !== "string")
    throw new CniError("InvalidRequest", "the request: config: name must be a text");
  return {
    command: env.CNI_COMMAND,
    pod: {
      namespace: textOf("K8S_POD_NAMESPACE"),
      name: textOf("K8S_POD_NAME"),
      uid: textOf("K8S_POD_UID"),
    },
    ifName: env.CNI_IFNAME,
    network: conf.name,
  };
}

function checked(value: Json): z.infer<typeof requestSchema> {
  try {
    return parseWith(requestSchema, value, "the request");
  } catch (cause) {
    throw new CniError("InvalidRequest", errorMessage(cause), { cause });
  }
}

/** Controllers know a container's ID, not the sandbox's, so the pod's UID selects the record. */
async function findAttachments(
  records: RecordReader,
  { pod, ifName, network }: ControllerRequest,
): Promise<RecordedAttachment[]> {
  return (await recordsOf(records, pod))
    .filter(mayRun)
    .flatMap(({ attachments }) => attachments)
    .filter(({ isDefault, result }) => !isDefault && result !== undefined)
    .filter(
      (each) => recordedList(each).name === network && (ifName === "" || each.ifName === ifName),
    );
}

/**
 * Whether an attachment was made for an element of the pod's annotation: one that has changed stays
 * if it cannot be replaced.
 * @param pod undefined to ask for any attachment that is to stay
 */
function isWanted(attachment: RecordedAttachment, pod: Pod | undefined): boolean {
  if (attachment.state !== "attached") return false;
  if (pod === undefined || attachment.selection === undefined) return true;
  return selectionsOf(pod).some((selection) => isAsRequested(attachment, selection));
}

function notDone(
  { pod, ifName, network }: ControllerRequest,
  outcome: HotPlugOutcome | undefined,
  state: string,
): CniError {
  const [problem] = outcome === undefined ? [] : problemsOf(outcome);
  const why =
    problem === undefined
      ? "Plexus attaches what the pod's networks annotation requests"
      : problemText(problem);
  const name = `network ${network}${ifName === "" ? "" : ` (${ifName})`}`;
  const message = `${name} of pod ${pod.namespace}/${pod.name} ${state}: ${why}`;
  return new CniError("TryAgainLater", message);
}
