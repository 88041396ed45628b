import { writeFileSync } from "node:fs";
import { startKeys, valuesSchema } from "./release/values-schema.ts";

const chart = new URL("../deploy/chart/", import.meta.url);

/** Writes the chart's generated files: `npx node scripts/chart-schema.ts`. */
writeFileSync(new URL("values.schema.json", chart), valuesSchema());
writeFileSync(new URL("start-keys.yaml", chart), startKeys());
