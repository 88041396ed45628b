import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { keepDefect } from "./corpus.ts";
import { fuzz } from "./fuzz.ts";
import { judge } from "./judge.ts";
import { targets } from "./targets/targets.ts";

const usage = "node e2e/fuzz/main.ts TARGET [--seconds N] [--seed N] | TARGET --input FILE";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000_000) },
    input: { type: "string" },
  },
});
const [name = ""] = positionals;
const target = targets[name];
if (target === undefined || positionals.length !== 1) {
  console.error(`${usage}\ntargets: ${Object.keys(targets).join(", ")}`);
  process.exit(2);
}
if (values.input !== undefined) {
  await judge(target, readFileSync(values.input, "utf8"));
  console.log(`${name}: ${values.input} is read as it must be`);
} else {
  const seed = Number(values.seed);
  const milliseconds = Number(values.seconds) * 1000;
  const { runs, found, defect } = await fuzz(name, target, { milliseconds, seed });
  console.log(
    `${name}: ${runs} inputs in ${values.seconds} s, ${found} of them kept, seed ${seed}`,
  );
  if (defect !== undefined) {
    const path = keepDefect(name, defect.input);
    console.error(`${name}: DEFECT: ${defect.reason}`);
    console.error(`again with: node e2e/fuzz/main.ts ${name} --input ${path}`);
    process.exit(1);
  }
}
