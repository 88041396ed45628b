import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { demoSvg } from "./svg.ts";

/** Draws the README's picture from the output of `make demo` on stdin: `make docs DEMO=1`. */
const file = join(import.meta.dirname, "../docs/pods.svg");

writeFileSync(file, demoSvg(readFileSync(0, "utf8")));
