import { configDefaults, defineConfig } from 'vitest/config'

/** Folders whose tests compute and parse: no process of their own, no load, nothing timed. */
const pure = [
  'search/**',
  'reports',
  'reports/{dashboard,imports,plan,specs}/**',
  'profiler/statistics/**',
  'trials/{devices,prices,server-files}/**',
  'trials/predictor/{engines/tfjs,models,preprocess,protocol}/**',
  'tuner/{experiment,render}/**',
].map((folder) => `${folder}/*.test.{ts,tsx}`)

export default defineConfig({
  test: {
    // Real processes, browsers and load on two shared cores: in CI one more try tells a fault from a hiccup of the machine.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: process.env.CI ? ['default', ['json', { outputFile: '.ci/results/unit.json' }]] : ['default'],
    projects: [
      {
        extends: true,
        test: { name: 'pure', include: pure, isolate: false, maxWorkers: 2 },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: ['{tuner,profiler,search,reports,trials,examples}/**/*.test.{ts,tsx}', '*.test.ts'],
          exclude: [...configDefaults.exclude, ...pure],
          globalSetup: ['./tuner/testing/build.ts'],
          // Load tests share two cores with what they measure: one file at a time, after the others, keeps their figures honest.
          fileParallelism: false,
        },
      },
    ],
  },
})
