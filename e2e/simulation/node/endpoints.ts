import { EndpointsController } from "#endpoints/controller.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import { logger } from "./plexusd.ts";

/** `stopMs` of `plexusctl endpoints`. */
const stopUs = 5e6;

/** A replica of `plexusctl endpoints`. */
export class Endpoints {
  readonly process = new Process("endpoints");
  readonly #stopping = new AbortController();

  /** Begins its start. @param identity the name of its pod */
  constructor(identity: string) {
    const { schedule, random } = world();
    const run = async (): Promise<void> => {
      const client = new ApiClient(await kubeconfigCredentials(""));
      const options = { client, namespace: "plexus", identity, logger };
      await new EndpointsController(options).run(this.#stopping.signal);
      schedule.kill(this.process);
    };
    schedule.at(random.duration(50_000, 500_000), () => void run(), this.process);
  }

  /** Begins its stop by SIGTERM. */
  stop(): void {
    const { schedule } = world();
    schedule.at(stopUs, () => schedule.kill(this.process), schedule.outside);
    schedule.at(1, () => this.#stopping.abort(), this.process);
  }
}
