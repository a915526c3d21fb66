// `npm run mutation`: mutation testing of the code that decides. CONTRIBUTING.md says when to run it.

/** The decision code. A pattern of a folder does not include its subfolders. */
const decisions = [
  'search/*.ts',
  'search/{space,gp,model,acquisition,stopping,samplers,replay}/*.ts',
  'profiler/model/slo.ts',
  'profiler/statistics/*.ts',
  'profiler/load/{hdr,latency-record,latency-summary,load-point}.ts',
  'profiler/capacity/*.ts',
  'profiler/capacity/{search,simulated}/*.ts',
  'profiler/capacity/queue-model/{deeper-queue-steps,closed-loop-outages,posterior}.ts',
  'profiler/protocols/{answer-check,expectations,golden-answers}.ts',
  'trials/launchers/{checked-answers,golden-store}.ts',
  'trials/machine/gpu-offer.ts',
  'trials/prices/*.ts',
  'reports/recommendation/*.ts',
  'reports/plan/{plan-costs,commitment}.ts',
  'reports/watch/*.ts',
  'tuner/loop/*.ts',
]

export default {
  mutate: [...decisions, '!**/*.{test,bench,contract}.ts'],
  // Wording is no decision.
  mutator: { excludedMutations: ['StringLiteral'] },
  // A mutant in a module constant would run every test again. Most are signs in published tables.
  ignoreStatic: true,
  thresholds: { high: 95, low: 90, break: 85 },

  // The tests beside the decisions. Whole runs elsewhere reach everything, and take too long.
  testFiles: decisions.map((glob) => glob.replace(/\.ts$/, '.test.ts')),
  testRunner: 'vitest',
  vitest: { configFile: 'vitest.mutation.config.ts' },
  coverageAnalysis: 'perTest',
  dryRunTimeoutMinutes: 30,
  // Stryker rewrites the tsconfig.json that it copies by an API that TypeScript 7 does not have.
  // What is not copied is not rewritten.
  ignorePatterns: ['tsconfig*.json', 'dist'],

  incremental: true,
  incrementalFile: '.stryker/incremental.json',
  tempDirName: '.stryker/sandboxes',
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: { logTests: false, reportTests: false },
}
