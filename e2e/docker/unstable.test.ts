import { describe } from "vitest";
import { dockerScenarios } from "./scenarios.ts";

describe("the engine of Debian unstable", () => dockerScenarios("unstable"));
