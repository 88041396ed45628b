import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { Server } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bootId, FrameType } from "../../shim/lab/frames.ts";
import { Bench, type Script } from "../../shim/lab/harness.ts";
import {
  type CallCase,
  type CasePaths,
  callVariables,
  childMs,
  filesBefore,
  orderOf,
  type ShimCase,
  type ShimCaseEnd,
} from "./shim-cases.ts";
import { statusOf } from "./shim-lab.ts";

/**
 * Notes its call once it has started what it leaves behind. The child closes the lock file, which is
 * descriptor 3, before its pipes, so that no lock file is left because it ends a moment too late.
 */
const plugin = `
case $CNI_IFNAME in
child) { sleep ${childMs.child / 1000}; exec 3>&-; } & ;;
orphan) sleep ${childMs.orphan / 1000} & echo $! >>"$0.pids" ;;
esac
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME '$CNI_NETNS'" >>"$0.ran"
case $CNI_IFNAME in
child | orphan) [ "$CNI_COMMAND" != CHECK ]; exit ;;
hangs) exec sleep 60 ;;
dies) kill -9 $$ ;;
fails) exit 1 ;;
esac
case $CNI_COMMAND in ADD | CHECK) exit 1 ;; esac
exit 0`;

/** Has the executable carry out a case. */
export async function runShim(
  shimCase: ShimCase,
  { shim, podNetns }: { readonly shim: string; readonly podNetns: string },
): Promise<ShimCaseEnd> {
  const bench = new Bench(shim);
  const path = bench.plugin("tuning", plugin);
  const paths = { bin: bench.bin, bootId, podNetns };
  for (const { name, content, mode } of filesBefore(shimCase, paths)) {
    writeFileSync(join(bench.state, name), content);
    chmodSync(join(bench.state, name), mode);
  }
  const answers: string[] = [];
  const statuses: string[] = [];
  try {
    for (const call of shimCase.calls)
      statuses.push(await new RealCall(bench, { call, paths, answers }).run());
    return { executed: linesOf(`${path}.ran`), answers, statuses, files: filesOf(bench.state) };
  } finally {
    for (const pid of linesOf(`${path}.pids`)) endProcess(Number(pid));
    bench.forgiveEngine();
    bench.close();
  }
}

interface RealCallOptions {
  readonly call: CallCase;
  readonly paths: CasePaths;
  readonly answers: string[];
}

class RealCall {
  readonly #bench: Bench;
  readonly #options: RealCallOptions;
  #server: Server | undefined;

  constructor(bench: Bench, options: RealCallOptions) {
    this.#bench = bench;
    this.#options = options;
  }

  async run(): Promise<string> {
    const { call, paths } = this.#options;
    const bench = this.#bench;
    if (call.engine !== undefined) this.#server = await bench.engine(this.#script());
    const ran = join(bench.bin, "tuning.ran");
    const before = linesOf(ran).length;
    const { child, ended } = bench.start({ env: callVariables(call, paths) });
    let answer: Awaited<typeof ended> | undefined;
    void ended.then((end) => {
      answer = end;
    });
    let isAbandoned = false;
    const isHanging = (): boolean =>
      linesOf(ran)
        .slice(before)
        .some((line) => /hangs|orphan/.test(line));
    while (answer === undefined) {
      await sleep(5);
      if (call.killed === "none" || isAbandoned || !isHanging()) continue;
      if (call.killed === "shim") child.kill("SIGKILL");
      else child.stdout?.destroy();
      isAbandoned = call.killed === "runtime";
    }
    this.#server?.close();
    if (isAbandoned) return "its runtime was killed";
    const { code, stdout } = answer;
    return statusOf(code === null ? undefined : { status: code, stdout });
  }

  #script(): Script {
    const { call, paths, answers } = this.#options;
    const { orders = [], isPipelined = false, isFinding = false, end = "done" } = call.engine ?? {};
    const { requires = [] } = call.engine ?? {};
    return async (engine) => {
      const encoded = orders.map((order) => orderOf(order, paths, [call]));
      const all = encoded.map(({ group, searchPath, env, ...order }) => ({
        ...order,
        group: String(group),
        path: searchPath.join(":"),
        env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      }));
      const send = async (order: (typeof all)[number]): Promise<void> => {
        const { outcome, code } = await engine.exec(order);
        answers.push(`${outcome} ${code}`);
      };
      if (isFinding) {
        const found = await engine.find(paths.bin, "tuning", "absent");
        answers.push(found.map(([outcome]) => outcome).join());
      }
      if (orders.length > 0 && requires.length > 0)
        engine.send(FrameType.require, [paths.bin, ...requires]);
      if (isPipelined) await sendAll();
      else for (const order of all) await send(order);
      if (end === "done") engine.done(0, "{}");
      else if (end === "fails") engine.done(1, '{"code":7}');
      else if (end === "dies") {
        this.#server?.close();
        engine.socket.destroy();
      }
      async function sendAll(): Promise<void> {
        const [first, ...others] = all;
        if (first === undefined) return;
        const sent = send(first);
        for (const order of others) engine.send(2, fieldsOf(order));
        await sent;
        for (const _ of others) {
          const { outcome, code } = await engine.readExecResult();
          answers.push(`${outcome} ${code}`);
        }
      }
      function fieldsOf({ group, type, path, timeoutMs, stdin, env }: (typeof all)[number]) {
        return [group, type, path, timeoutMs, stdin, ...env];
      }
    };
  }
}

function linesOf(path: string): string[] {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
}

function filesOf(dir: string): string[] {
  return readdirSync(dir)
    .map((name) => {
      const path = join(dir, name);
      // Zeros are a lock file that names no process group.
      const isEmpty = /^0*$/.test(readFileSync(path, "latin1"));
      return `${name} ${(statSync(path).mode & 0o7777).toString(8)}${isEmpty ? " empty" : ""}`;
    })
    .toSorted();
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
