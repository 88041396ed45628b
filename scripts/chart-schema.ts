import { writeFileSync } from "node:fs";
import { valuesSchema } from "./release/values-schema.ts";

/** Writes deploy/chart/values.schema.json: `npx node scripts/chart-schema.ts`. */
writeFileSync(new URL("../deploy/chart/values.schema.json", import.meta.url), valuesSchema());
