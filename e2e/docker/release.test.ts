import { describe } from "vitest";
import { dockerScenarios } from "./scenarios.ts";

describe("the engine of Debian's release", () => dockerScenarios("release"));
