import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { asObject, type JsonObject, parseJson } from "../json.ts";

/** What a scripted delegate does on a command for one container. */
export interface Answer {
  /** Printed instead of the usual answer; `@NETNS@` and `@IFNAME@` are those of the call. */
  readonly stdout?: string | JsonObject;
  /** @default 0 */
  readonly exit?: number;
  /** Seconds before the delegate answers. */
  readonly sleep?: number;
  /** Makes an interface with the call's name in the pod, unless there is one. */
  readonly link?: true;
  /** Has this plugin of the reference plugins answer, with this configuration. */
  readonly plugin?: JsonObject;
}

/** One execution of a scripted delegate. */
export interface Invocation {
  readonly type: string;
  readonly command: string;
  readonly ifName: string;
  readonly environment: Readonly<Record<string, string>>;
  /** What it got on stdin. */
  readonly configuration: JsonObject;
  /** Another delegate of the same container had not yet ended when this one started. */
  readonly overlaps: boolean;
}

/** The type of the default network's plugin. */
export const defaultType = "npwg-default";
const types = [defaultType, "npwg-a", "npwg-b", "npwg-c"];
/** The reference plugins that some requirements need. */
const realPlugins = ["bridge", "ptp", "host-local", "static"];

/**
 * Plugins for an implementation to execute: a POSIX shell script under several names, which records how it
 * is called and answers as told, and copies of the reference plugins.
 */
export class Delegates {
  readonly binDir: string;
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
    this.binDir = join(root, "bin");
  }

  /** @throws Error naming a reference plugin that is missing */
  static async install(root: string, referencePlugins: string): Promise<Delegates> {
    const delegates = new Delegates(root);
    for (const dir of ["bin", "log", "answer"]) await mkdir(join(root, dir), { recursive: true });
    for (const type of types)
      await writeFile(join(delegates.binDir, type), script(root), { mode: 0o755 });
    for (const name of realPlugins) {
      const from = join(referencePlugins, name);
      await copyFile(from, join(delegates.binDir, name)).catch(() => {
        throw new Error(`${from} is missing: install the CNI reference plugins, or set --bin-dir`);
      });
    }
    return delegates;
  }

  /** From now on, the delegate does this on the command for the container. */
  async answer(containerId: string, call: string, answer: Answer): Promise<void> {
    const dir = join(this.#root, "answer", containerId);
    await mkdir(dir, { recursive: true });
    const write = (key: string, text: string): Promise<void> =>
      writeFile(join(dir, `${call}.${key}`), text);
    const { stdout, exit, sleep, link, plugin } = answer;
    if (stdout !== undefined)
      await write("out", typeof stdout === "string" ? stdout : JSON.stringify(stdout));
    if (exit !== undefined) await write("exit", `${exit}`);
    if (sleep !== undefined) await write("sleep", `${sleep}`);
    if (link === true) await write("link", "");
    if (plugin === undefined) return;
    await write("conf", JSON.stringify(plugin));
    await write("exec", String(plugin.type));
  }

  /** Every execution for a container, in the order in which they started. */
  async invocations(containerId: string): Promise<Invocation[]> {
    const dir = join(this.#root, "log", containerId);
    const numbers = await readdir(dir).catch(() => []);
    const ordered = numbers.map(Number).sort((a, b) => a - b);
    return await Promise.all(ordered.map((number) => readInvocation(join(dir, `${number}`))));
  }

  /** Forgets a container's answers and executions. */
  async forget(containerId: string): Promise<void> {
    for (const dir of ["answer", "log"])
      await rm(join(this.#root, dir, containerId), { recursive: true, force: true });
  }
}

async function readInvocation(dir: string): Promise<Invocation> {
  const read = (name: string): Promise<string> => readFile(join(dir, name), "utf8").catch(() => "");
  const [type, variables, stdin, overlaps] = await Promise.all(
    ["type", "env", "stdin", "overlaps"].map(read),
  );
  const pairs = (variables ?? "").split("\n").map((line) => {
    const at = line.indexOf("=");
    return [line.slice(0, at), line.slice(at + 1)];
  });
  const environment = Object.fromEntries(pairs) as Record<string, string>;
  return {
    type: (type ?? "").trim(),
    command: environment.CNI_COMMAND ?? "",
    ifName: environment.CNI_IFNAME ?? "",
    environment,
    configuration: asObject(parseJson(stdin ?? "")),
    overlaps: overlaps !== "",
  };
}

const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
const version = JSON.stringify({ cniVersion: "1.0.0", supportedVersions: versions });
const added = JSON.stringify({
  cniVersion: "1.0.0",
  interfaces: [{ name: "@IFNAME@", sandbox: "@NETNS@" }],
});

/** The numbered directories of the log are the order of the executions. */
const script = (root: string): string => `#!/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ "$CNI_COMMAND" = VERSION ]; then echo '${version}'; exit 0; fi
type=\${0##*/}
container=\${CNI_CONTAINERID:-none}
answer='${root}'/answer/$container/$type.$CNI_COMMAND
log='${root}'/log/$container
mkdir -p "$log"
n=0
while ! mkdir "$log/$n" 2>/dev/null; do n=$((n + 1)); done
i=0
while [ $i -lt $n ]; do
  [ -e "$log/$i/ended" ] || echo $i >>"$log/$n/overlaps"
  i=$((i + 1))
done
echo "$type" >"$log/$n/type"
env >"$log/$n/env"
cat >"$log/$n/stdin"
if [ -e "$answer.link" ]; then
  nsenter --net="$CNI_NETNS" ip link add "$CNI_IFNAME" type bridge 2>/dev/null || :
fi
[ ! -e "$answer.sleep" ] || sleep "$(cat "$answer.sleep")"
if [ -e "$answer.exec" ]; then
  '${root}'/bin/"$(cat "$answer.exec")" <"$answer.conf"
  code=$?
else
  if [ -e "$answer.out" ]; then text=$(cat "$answer.out")
  elif [ "$CNI_COMMAND" = ADD ]; then text='${added}'
  else text=; fi
  [ -z "$text" ] || printf '%s\\n' "$text" | sed "s|@NETNS@|$CNI_NETNS|g; s|@IFNAME@|$CNI_IFNAME|g"
  code=0
  [ ! -e "$answer.exit" ] || code=$(cat "$answer.exit")
fi
: >"$log/$n/ended"
exit "$code"
`;
