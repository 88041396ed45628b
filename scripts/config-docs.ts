import { writeFileSync } from "node:fs";
import { renderConfigDocs } from "#daemon/config/docs.ts";

/** Writes docs/user/configuration.md from the schema: `npx node scripts/config-docs.ts`. */
writeFileSync(new URL("../docs/user/configuration.md", import.meta.url), renderConfigDocs());
