import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SkippedReporter } from './tuner/testing/skipped-reporter.ts'
import { inTwoLanes } from './tuner/testing/two-lanes.ts'

/** Tests that compute and parse: no process of their own, no load in real time, nothing timed. */
export const pure = [
  '{architecture,licences}',
  'search/**/*',
  'reports/*',
  'reports/{comparison,dashboard,fleet,imports,plan,recommendation,specs,watch}/**/*',
  'reports/report/{latency-log,recommendation-json,report-blocks,write-atomically}',
  'examples/first-lines',
  'profiler/{bounded-places,plain-text,prometheus,server-address}',
  'profiler/model/*',
  'profiler/{statistics,testing}/**/*',
  'profiler/load/{answer-sampler,arrivals,class-summaries,hdr,http1-answer,latency-record,load-point,sse,virtual-generator}',
  'profiler/protocols/{answer-check,answer-faults,expectations,form-fields,prompt-fitting,prompts,protocol-table,refusals,request-classes,request-format,tensor-bytes,tokenizer,warm-up-requests}',
  'profiler/capacity/{[!m]*,measured-*,*/**/*}',
  'trials/*',
  'trials/{devices,pipeline,prices}/**/*',
  'trials/machine/{gpu-offer,nvidia-smi,rocm-smi,visible-gpus}',
  'trials/store/memory-store',
  'trials/launchers/{checked-answers,declare-discipline,diagnosis,failure,fill,golden-store,predictor-log,typed-command}',
  'trials/launchers/local/resource-pool',
  'trials/servers/**/*',
  'trials/launchers/kubernetes/{deploy,gpus/{cluster-facts,mig-config},manifests/{manifests,payload-map,pod-policy,pod-secrets,trial-service},launch/planned-objects}',
  'trials/launchers/simulated/{simulated-launcher,simulated-capacity,learned-pipeline,llm,llm-pools,modelled-server,pipeline,simulated}',
  'trials/predictor/{images,settings,server/{batcher,repository}}',
  'trials/predictor/llm/{scheduler,speculation,step-costs,step-model,gguf/gguf-engine}',
  'trials/predictor/{preprocess,protocol}/**/*',
  'tuner/testing/chaos/**/*',
  'tuner/testing/{two-lanes,documentation/*}',
  'tuner/bench/{gate/*,rounds}',
  'tuner/{config,reference-docs,cli/render}/**/*',
  'tuner/backends/{cluster-space,load-work,predictor-protocol,refused-requests,simulated-backend,simulated-llm,simulated-speculation}',
  'tuner/{exported-tables,names,pools-search}',
  'tuner/cli/commands/{choose-candidate,init/experiment-draft,init/settings-file,profile/profile,replay/replay-outcome,spec/run,tune/time-estimate,watch/access-log/*,watch/default-queries}',
  'tuner/artifacts/{own-pod,stage-servings}',
  'tuner/cli/commands/verify/verification',
  'tuner/library/search-function',
  'tuner/loop/*',
  'tuner/problem/*',
  'tuner/truth/*',
].map((files) => `${files}.test.{ts,tsx}`)

/**
 * Tests of what a measurement says: latencies, rates and shares of cores in real time, held against
 * what is known of the server. They share the cores with what they measure, so they come last and
 * one file at a time, which keeps their figures honest; the main job is here, for beside other
 * loads its trials are spoilt, and made again. Tests that load something to see what becomes of it
 * (files, failures, what is left behind) are processes: a figure that a busy machine moves is not
 * what they are about.
 */
const measured = [
  'profiler/load/{closed-autocannon,http-generator,http2,known-servers,machine-watch}',
  'profiler/bench/known-streams',
  'profiler/protocols/{connection,openai}',
  'profiler/protocols/grpc/*',
  'trials/launchers/simulated/agreement',
  'trials/launchers/local/control-group',
  'trials/predictor/llm/llm',
  'tuner/main-job',
].map((files) => `${files}.test.{ts,tsx}`)

/**
 * What a newcomer does: the pages that start servers of others, the package as it is installed, the
 * examples as they stand. They take minutes, one at a time, for real loads disturb each other: a
 * stage of its own, `npm run test:paths`.
 */
const paths = ['tuner/paths.test.ts', 'tuner/library/package.test.ts', 'examples/*/*.test.ts']

/** The page and the report in Chromium: `npm run test:browser`, a stage of its own. */
const browser = [
  'tuner/dashboard/{accessibility,browser,experiments,many-trials,screens,side-by-side}.test.ts',
  'reports/report/browser.test.ts',
]

/**
 * About how long tests that load something in real time take, beside none of their kind. On a new
 * checkout vitest knows no durations.
 */
const loading = {
  docs: 50,
  'tuner/planted-secrets': 30,
  'tuner/cli/commands/verify/run': 35,
  'tuner/whole-run': 25,
  'tuner/backends/kubernetes-backend': 29,
  'tuner/right-answers': 25,
  'tuner/reconfigured-search': 20,
  'profiler/capacity/measure': 22,
  'profiler/profile': 19,
  'profiler/load/closing-servers': 18,
  'tuner/cli/commands/profile/first-contact': 22,
  'tuner/killed-tuner': 11,
  'tuner/backends/local-backend': 10,
  'tuner/backends/url-backend': 10,
  'profiler/protocols/shapes': 7,
  'profiler/load/failing-servers': 15,
  'profiler/load/endless-answers': 6,
}

/** About how long others take. */
const others = {
  'tuner/gpu-machines': 24,
  'tuner/cli/commands/init/init': 13,
  'tuner/cli/commands/watch/prometheus-source': 11,
  'trials/launchers/local/local-launcher': 26,
  'tuner/cli': 17,
  'tuner/artifacts/deployables': 22,
  'tuner/hostile-input': 12,
  'trials/store/damage': 13,
  'tuner/damaged-store': 6,
  'trials/launchers/readiness': 10,
  'trials/predictor/main': 8,
  'trials/launchers/triton/triton-launcher': 7,
  'profiler/protocols/addresses': 7,
  'trials/launchers/kubernetes/kubernetes-launcher': 7,
  'trials/predictor/server/grpc-server': 6,
  'trials/launchers/builtin': 5,
}

class TwoLanes extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return inTwoLanes(await super.sort(files), ({ moduleId }) => moduleId, loading, others)
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: TwoLanes },
    // What takes ten seconds takes minutes on a machine with ten other things to do.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    setupFiles: ['./tuner/testing/property-runs.ts'],
    reporters: ['default', new SkippedReporter(), ...(process.env.CI ? ['json'] : [])],
    outputFile: { json: '.ci/results/unit.json' },
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: pure,
          isolate: false,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: ['{tuner,profiler,search,reports,trials}/**/*.test.{ts,tsx}', '*.test.ts'],
          exclude: [...configDefaults.exclude, ...pure, ...measured, ...paths, ...browser],
          globalSetup: ['./tuner/testing/build.ts'],
          // They wait for processes more than they compute: two leave a quarter of two cores idle.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'measured',
          include: measured,
          exclude: [...configDefaults.exclude, ...pure],
          globalSetup: ['./tuner/testing/build.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          include: browser,
          globalSetup: ['./tuner/testing/build.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
      {
        extends: true,
        test: {
          name: 'paths',
          include: paths,
          globalSetup: ['./tuner/testing/build.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 4 },
        },
      },
    ],
  },
})
