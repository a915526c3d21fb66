import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['{tuner,profiler,search,reports,trials,examples}/**/*.test.{ts,tsx}', '*.test.ts'],
    // Load tests share two cores with what they measure: one file at a time keeps their figures honest.
    fileParallelism: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: process.env.CI ? ['default', ['json', { outputFile: '.ci/results/unit.json' }]] : ['default'],
  },
})
