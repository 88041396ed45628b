import { defaultPaths } from "#lib/files/default-paths.ts";
import type { DelegateBehaviour } from "../world/faults.ts";
import { Process } from "../world/schedule.ts";
import { type EngineSession, world } from "../world/world.ts";
import {
  type CallCase,
  type CasePaths,
  callVariables,
  childMs,
  filesBefore,
  type IfName,
  orderOf,
  type ShimCase,
  type ShimCaseEnd,
} from "./shim-cases.ts";
import { ShimLab, statusOf } from "./shim-lab.ts";

const behaviours: Readonly<Record<IfName, DelegateBehaviour>> = {
  works: "works",
  "works-too": "works",
  fails: "fails before its work",
  dies: "dies before its work",
  hangs: "hangs before its work",
  child: "leaves a child",
  orphan: "leaves a child",
};

/** How long a delegate runs that ends. */
const durationUs = 1000;

/** When the test kills a process, in microseconds after its start. */
const killUs = 100_000;

/** Until a call's end is known, in microseconds. */
const noticeUs = 1000;

/** Has the model carry out a case. */
export async function runModel(shimCase: ShimCase, podNetns: string): Promise<ShimCaseEnd> {
  const lab = new ShimLab();
  const { world } = lab;
  const paths = { bin: "/opt/cni/bin", bootId: world.kernel.bootId, podNetns };
  world.kernel.addNamespace(podNetns);
  for (const { name, content, mode } of filesBefore(shimCase, paths)) {
    const path = `${defaultPaths.stateDir}/${name}`;
    world.disk.writeFile(path, content, 0o600);
    world.disk.chmod(path, mode);
  }
  const answers: string[] = [];
  const statuses: string[] = [];
  return lab.run(async () => {
    for (const call of shimCase.calls)
      statuses.push(await new ModelCall(lab, { call, paths, answers }).run());
    return { executed: lab.executed, answers, statuses, files: filesOf(lab) };
  });
}

interface ModelCallOptions {
  readonly call: CallCase;
  readonly paths: CasePaths;
  readonly answers: string[];
}

class ModelCall {
  readonly #lab: ShimLab;
  readonly #options: ModelCallOptions;
  readonly #runtime = new Process("runtime");
  #shim: Process | undefined;

  constructor(lab: ShimLab, options: ModelCallOptions) {
    this.#lab = lab;
    this.#options = options;
    lab.behaviourOf = (ifName, command) => this.#behaviourOf(ifName as IfName, command);
  }

  async run(): Promise<string> {
    const { call, paths } = this.#options;
    const lab = this.#lab;
    const { schedule } = lab.world;
    let plexusd: Process | undefined;
    if (call.engine !== undefined) {
      plexusd = new Process("plexusd");
      lab.listen((session) => this.#serve(session), plexusd);
    }
    let status = "its runtime was killed";
    await new Promise<void>((resolve) => {
      const director = schedule.current;
      const start = (): void => {
        const { process, ended } = lab.start(callVariables(call, paths));
        this.#shim = process;
        process.onEnd(() => schedule.at(noticeUs, resolve, director));
        void ended.then((exit) => {
          status = statusOf(exit);
        });
      };
      schedule.at(0, start, this.#runtime);
    });
    if (plexusd !== undefined) schedule.kill(plexusd);
    return status;
  }

  async #serve(session: EngineSession): Promise<void> {
    const { call, paths, answers } = this.#options;
    const { orders = [], isPipelined = false, isFinding = false, end = "done" } = call.engine ?? {};
    const { requires = [] } = call.engine ?? {};
    const send = async (order: (typeof orders)[number]): Promise<void> => {
      const required = order === orders[0] ? requires : [];
      const { outcome, code } = await session.exec({
        ...orderOf(order, paths, [call]),
        requires: required,
      });
      answers.push(`${outcome} ${code}`);
    };
    if (isFinding) {
      const found = await session.find([paths.bin], ["tuning", "absent"]);
      answers.push(found.map(({ outcome }) => outcome).join());
    }
    if (isPipelined) await Promise.all(orders.map(send));
    else for (const order of orders) await send(order);
    const { schedule } = this.#lab.world;
    if (end === "dies") schedule.kill(schedule.current);
    else if (end === "done") await session.done({ exitCode: 0, stdout: "{}", stderr: "" });
    else if (end === "fails") await session.done({ exitCode: 1, stdout: '{"code":7}', stderr: "" });
  }

  #behaviourOf(
    ifName: IfName,
    command: string,
  ): { behaviour: DelegateBehaviour; durationUs: number } {
    const { schedule } = this.#lab.world;
    const { killed } = this.#options.call;
    const victim = killed === "shim" ? this.#shim : this.#runtime;
    if (killed !== "none" && victim !== undefined && (ifName === "hangs" || ifName === "orphan"))
      schedule.at(killUs, () => schedule.kill(victim), schedule.outside);
    const behaviour = behaviours[ifName];
    if (ifName !== "child" && ifName !== "orphan") return { behaviour, durationUs };
    const childUs = childMs[ifName] * 1000;
    if (command === "ADD") return { behaviour, durationUs: childUs };
    // The child of another command would run for more than a minute.
    const before = new Set(Process.alive);
    schedule.at(childUs, () => endChildren(before), schedule.outside);
    return { behaviour, durationUs };
  }
}

/** Kills the children of delegates that were not among the processes before. */
function endChildren(before: ReadonlySet<Process>): void {
  for (const process of [...Process.alive])
    if (process.name.startsWith("child of") && !before.has(process)) world().schedule.kill(process);
}

function filesOf(lab: ShimLab): string[] {
  const { disk } = lab.world;
  return lab.files().map((line) => {
    const [name = ""] = line.split(" ");
    return disk.stat(`${defaultPaths.stateDir}/${name}`).size === 0 ? `${line} empty` : line;
  });
}
