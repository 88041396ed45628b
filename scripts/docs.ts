import { writeFileSync } from "node:fs";
import { generatedPages } from "./docs/pages.ts";

/** Writes the pages and tables that are made from tables in src/: `npx node scripts/docs.ts`. */
for (const [path, text] of generatedPages()) writeFileSync(path, text);
