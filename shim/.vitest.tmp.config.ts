import { defineConfig } from "vitest/config";
export default defineConfig({ root: "/work/main", test: { name: "shim", include: ["e2e/shim/**/*.test.ts"] } });
