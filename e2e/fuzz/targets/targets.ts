import type { Target } from "../target.ts";
import { annotation } from "./annotation.ts";
import { conf } from "./conf.ts";
import { configuration } from "./configuration.ts";
import { docker } from "./docker.ts";
import { frame } from "./frame.ts";
import { message } from "./message.ts";
import { multus } from "./multus.ts";
import { nad } from "./nad.ts";
import { plan } from "./plan.ts";
import { result } from "./result.ts";

/** What is fuzzed, by the name that `make fuzz-NAME` takes. */
export const targets: Readonly<Record<string, Target>> = {
  annotation,
  nad,
  multus,
  conf,
  result,
  configuration,
  frame,
  plan,
  message,
  docker,
};
