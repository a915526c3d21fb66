import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['{tuner,profiler,search,reports,trials,examples}/**/*.test.{ts,tsx}', '*.test.ts'],
    // Load tests share two cores with what they measure: one file at a time keeps their figures honest.
    fileParallelism: false,
    // Real processes, browsers and load on two shared cores: in CI one more try tells a fault from a hiccup of the machine.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: process.env.CI ? ['default', ['json', { outputFile: '.ci/results/unit.json' }]] : ['default'],
  },
})
