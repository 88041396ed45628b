import { join } from "node:path";
import { initProgram } from "../cluster/kubernetes/tools.ts";
import { debianRoot } from "../cluster/machine/debian.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { cnitoolBinary } from "../conformance/tools.ts";

/** What a machine with the clients is made of. */
export interface ClientTools {
  /** The root of those of containerd, runc, busybox and the CNI plugins. */
  readonly debian: string;
  readonly nerdctl: string;
  readonly cnitool: string;
  /** A static init: see cluster/machine/init.c. */
  readonly init: string;
}

/** Finds all programs, and builds or downloads what is not in the cache yet. */
export async function prepareClientTools(): Promise<ClientTools> {
  const [debian, nerdctl, cnitool, init] = await Promise.all([
    debianRoot(),
    nerdctlBinary(),
    cnitoolBinary(),
    initProgram(),
  ]);
  return { debian, nerdctl, cnitool, init };
}

async function nerdctlBinary(): Promise<string> {
  const module = "github.com/containerd/nerdctl/v2@v2.1.2";
  const programs = { nerdctl: "./cmd/nerdctl" };
  return join(await builtModule({ name: "nerdctl", module, programs }), "nerdctl");
}
