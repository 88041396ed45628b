import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The results of test files that were executed; one that was not loaded has no duration. */
const results = new Map<string, { failed: boolean; duration: number }>();

/** A mutant ends at its first failure: test files that failed last time first, then the quick ones. */
export class QuickestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    for (const file of files) {
      const result = this.ctx.cache.getTestSpecificationResult(file);
      if (result !== undefined && result.duration > 0) results.set(file.moduleId, result);
    }
    return files
      .map((file) => ({ file, ...(results.get(file.moduleId) ?? { failed: false, duration: 0 }) }))
      .toSorted((a, b) => Number(b.failed) - Number(a.failed) || a.duration - b.duration)
      .map(({ file }) => file);
  }
}
