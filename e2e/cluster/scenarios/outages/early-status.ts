import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../../support/wait.ts";
import { SlowApi } from "../../kubernetes/slow-api.ts";
import { home, networkStatus, type PodObject } from "../target/objects.ts";
import { readConfig, restartPlexus, writeConfig } from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { ownCluster, skipGiven, type Target } from "../target/target.ts";

/** How late the API server passes the write of a status on. */
const delaysMs = [500, 4000];

/** Who reads a pod's network-status once, when the pod becomes Running: enforcers of network policies, launchers of jobs. */
export function earlyStatusScenario(scene: () => Scene): void {
  test("with a slow API server, network-status is there when a pod becomes Running, and with publishStatus: afterReply it is not", async (context) => {
    skipGiven(context);
    const { target } = scene();
    const config = await readConfig(target);
    onTestFinished(async () => {
      await writeConfig(target, config);
      await restartPlexus(target);
    });
    await using slow = await SlowApi.start(ownCluster(scene()));
    await using reader = StatusReader.start(target);
    const missed = async (setting: string): Promise<string[]> => {
      await restartPlexus(target);
      const names: string[] = [];
      for (const ms of delaysMs) {
        await slow.delay(ms);
        const started = [1, 2, 3].map((n) => `${setting}-${ms}-${n}`);
        await Promise.all(started.map((name) => scene().startPod(name, { networks: "red" })));
        names.push(...started);
      }
      const found = await Promise.all(names.map((name) => reader.statusOf(name)));
      return names.filter((_, n) => found[n] !== 2);
    };
    expect(await missed("default")).toEqual([]);
    await writeConfig(target, `${config}\npublishStatus: afterReply\n`);
    const late = await missed("late");
    console.log(`without a status at Running, with publishStatus: afterReply: ${late.join(", ")}`);
    expect(late).not.toEqual([]);
  });
}

/** Watches the pods, and reads each one's status only in its first version that is Running. */
class StatusReader implements AsyncDisposable {
  readonly #process: ChildProcess;
  /** The number of entries, by the pod's name. */
  readonly #read = new Map<string, number>();

  private constructor(child: ChildProcess) {
    this.#process = child;
    if (child.stdout === null) throw new Error("the watch has no output");
    createInterface(child.stdout).on("line", (line) => this.#see(JSON.parse(line).object));
  }

  static start(target: Target): StatusReader {
    const path = `/api/v1/namespaces/${home}/pods?watch=1`;
    const [file, ...args] = target.kubectlCommand("get", `--raw=${path}`);
    return new StatusReader(spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] }));
  }

  async statusOf(name: string): Promise<number> {
    return waitUntil(`${name} is seen`, () => this.#read.get(name));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#process, "exit");
    this.#process.kill();
    await ended;
  }

  #see(pod: PodObject): void {
    const { name } = pod.metadata;
    if (pod.status.phase !== "Running" || this.#read.has(name)) return;
    this.#read.set(name, networkStatus(pod).length);
  }
}
