import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import type { HostState } from "../support/host-state.ts";
import type { DockerBuild } from "./builds.ts";
import { type ContainerOptions, type RunningContainer, runContainer } from "./containers.ts";
import { DockerFixture } from "./fixture.ts";

const networks = ["red", "blue", "fixed", "wire", "shaped", "dual"] as const;

type MoreOptions = Omit<ContainerOptions, "name" | "network">;

/** The machine of a test file, with a network for each definition. */
export interface DockerLab {
  readonly fixture: DockerFixture;
  /** The machine's state before the test. */
  readonly before: HostState;
  /** Runs a container on a network. @default the network `red` */
  run(name: string, network?: string, more?: MoreOptions): Promise<RunningContainer>;
  /** Runs the containers `one` and `two` on a network. */
  runPair(network: string): Promise<[RunningContainer, RunningContainer]>;
}

/** Starts a machine before the tests of this file, and removes all containers after each test. */
export function useDockerLab(name: DockerBuild["name"]): DockerLab {
  let fixture: DockerFixture;
  let before: HostState;
  const run: DockerLab["run"] = (container, network = "red", more = {}) =>
    runContainer({ name: container, network, ...more });

  beforeAll(async () => {
    fixture = await DockerFixture.create(name);
    for (const network of networks) await fixture.createNetwork(network);
    // Bridges and the plugins' chains stay after their first use.
    await Promise.all(networks.map((network) => run(network, network)));
    await run("published", "red", { published: "18079" });
    await fixture.removeAll();
  });
  afterAll(() => fixture?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    before = await fixture.machine.state();
  });
  afterEach(() => fixture.removeAll());

  return {
    get fixture() {
      return fixture;
    },
    get before() {
      return before;
    },
    run,
    runPair: (network) => Promise.all([run("one", network), run("two", network)]),
  };
}
