/**
 * One configuration as specs have it, for tests: measured for real of the user's own command unless
 * a test says otherwise.
 */

import type { Configuration } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { countPoolGpus, type Resources } from '../../trials/resources.ts'
import { isLanguageServer, type LanguageServer } from '../../trials/servers/server-kinds.ts'
import type { Deployed } from '../figures.ts'
import { recommend } from '../recommendation/recommend.ts'
import { sampleInput, slo } from '../samples.contract.ts'
import { createServing } from './create-serving.ts'
import { buildLanguageContainer } from './servers/language.ts'
import type { Container, Evidence, Serving, ServingOptions, StageCall } from './serving.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

export const recommendation = recommend(sampleInput)
const { best: winner } = recommendation
export const best = {
  ...winner!,
  configuration: { ...winner!.configuration, memoryMiB: 4096, maxDelayMs: 2.5, instances: 2 },
}
export const container: Container = {
  image: 'registry.example/bert:1',
  args: ['--model=bert'],
  env: { BATCH_SIZE: '8', GREETING: 'a "quoted" text' },
  tunedEnv: ['BATCH_SIZE'],
  files: [{ path: '/etc/server/queue.conf', contents: 'limit = 100\n' }],
  port: 8000,
  readyPath: '/v2/health/ready',
  livePath: '/v2/health/live',
  requestsMetric: 'bert_requests_total',
}
export const ownCommand: MeasuredWith = {
  how: 'measured',
  server: 'command',
  model: 'bert',
  protocol: 'oip-v2',
  modelKind: 'unknown',
  weights: 'own',
  command: ['bert-server'],
}
export const evidence: Evidence = {
  experimentId: 'bert-7f3a',
  seed: 7,
  slo,
  verdict: recommendation.verdict,
  status: best.status,
  measured: ownCommand,
  launchSeconds: 31,
  cpuCoresBusy: 1.2,
  meanMsAtCapacity: 25,
}

/** An 8B in 16 bits, simulated, and the limits on both parts of its stream. */
export const llama = {
  ...ownCommand,
  server: 'builtin',
  engine: 'emulated',
  how: 'simulated',
  modelKind: 'decoder',
  weights: 'none',
  weightsMiB: 15_317,
  maxModelLen: 4096,
} as const
export const streamed = {
  percentile: 0.99,
  maxErrorRate: 0,
  limitMs: 300,
  limits: [
    { metric: 'ttft', limitMs: 300 },
    { metric: 'tpot', limitMs: 30 },
  ],
} as const

export const quarter: Resources = {
  cpuCores: 2,
  memoryMiB: 4096,
  gpu: 'T4',
  gpus: 1,
  gpuShare: 0.25,
  gpuMemoryMiB: 3840,
}
export const whole: Resources = { ...quarter, gpuShare: 1, gpuMemoryMiB: 15360 }
/** More than a node has. */
export const wide: Resources = { ...whole, gpus: 16 }
export const noGpu: Resources = { cpuCores: 1.5, memoryMiB: 1500, gpus: 0, gpuShare: 0 }

export const found = {
  model: 'bert',
  candidate: best,
  resources: quarter,
  deployed: { server: 'command', weights: 'own' } as Deployed,
  container,
  evidence,
}

/** What was measured deploys, whichever server it is. */
export function serving(
  {
    server = 'command',
    ...options
  }: Partial<ServingOptions> & { server?: Deployed['server'] } = {},
  resources: Resources = quarter,
  change: Partial<Container> = {},
): Serving {
  const ours = server === 'command' || server === 'url' || server === 'ray'
  const modelUri = ours ? undefined : 's3://bucket/bert'
  const measured = {
    ...ownCommand,
    ...(isLanguageServer(server)
      ? { modelKind: 'decoder', command: buildLanguageContainer(server, 'bert', undefined).command }
      : server === 'ray'
        ? { command: ['serve'] }
        : server === 'mlserver'
          ? { command: [server] }
          : { server }),
  } as MeasuredWith
  return createServing(
    {
      ...found,
      resources,
      deployed: {
        server,
        weights: ours ? 'own' : 'given',
        ...(server === 'builtin' && { engine: 'tfjs' }),
      },
      container: { ...container, ...change },
      evidence: { ...evidence, measured },
    },
    { demandRps: 900, headroom: 0.2, ...(modelUri && { modelUri }), ...options },
  )
}

/** A parsed object. */
export type Tree = { [key: string]: Tree } & Tree[]

/** Where each object has its pod: labels and annotations, spec, the server's container. */
export const podOf: Readonly<Record<string, (spec: Tree) => readonly [Tree, Tree, Tree]>> = {
  Deployment: ({ template }) => [
    template!.metadata!,
    template!.spec!,
    template!.spec!.containers![0]!,
  ],
  Rollout: ({ template }) => [
    template!.metadata!,
    template!.spec!,
    template!.spec!.containers![0]!,
  ],
  InferenceService: ({ predictor }) => [
    predictor!,
    predictor!,
    predictor!.model ?? predictor!.containers![0]!,
  ],
  LLMInferenceService: (spec) => [spec, spec.template!, spec.template!.containers![0]!],
  SeldonDeployment: ({ predictors }) => {
    const [part] = predictors![0]!.componentSpecs!
    return [part!.metadata!, part!.spec!, part!.spec!.containers![0]!]
  },
  Inference: ({ predictors }) => {
    const { metadata, spec } = predictors![0]!.template!
    return [metadata!, spec!, spec!.containers![0]!]
  },
  LeaderWorkerSet: ({ leaderWorkerTemplate }) => {
    const { metadata, spec } = leaderWorkerTemplate!.leaderTemplate!
    return [metadata!, spec!, spec!.containers![0]!]
  },
  RayService: ({ rayClusterConfig }) => {
    const { metadata, spec } = rayClusterConfig!.workerGroupSpecs![0]!.template!
    return [metadata!, spec!, spec!.containers![0]!]
  },
}

export const hubModel = 'meta-llama/Llama-3.1-8B-Instruct'
const simulatedEvidence = {
  ...evidence,
  measured: llama,
  slo: streamed,
  launchSeconds: undefined,
}

/** An 8B in 16 bits, simulated. */
export function languageServing(
  server: LanguageServer,
  modelUri: string | undefined,
  gpus = 1,
  tuned: Configuration = {},
): Serving {
  return createServing(
    {
      ...found,
      model: 'llama-3.1-8b',
      candidate: { ...best, configuration: { maxNumSeqs: 64, gpus, ...tuned } },
      resources: { ...whole, gpu: 'H100', gpus },
      deployed: { server, weights: modelUri === undefined ? 'missing' : 'given' },
      container: {
        ...buildLanguageContainer(server, 'llama-3.1-8b', modelUri),
        isImageNamed: true,
      },
      evidence: simulatedEvidence,
    },
    { headroom: 0.2, ...(modelUri !== undefined && { modelUri }) },
  )
}

/** The same, in a prefill server and two decode servers for each of three replicas. */
export function pooledServing(server: 'sglang' | 'vllm' = 'sglang', decodeGpus = 2): Serving {
  const pools = { prefill: 1, decode: 2, prefillGpus: 2, decodeGpus }
  const servers = 3
  return createServing(
    {
      ...found,
      model: 'llama-3.1-8b',
      candidate: {
        ...best,
        replicas: 3,
        configuration: {
          maxNumSeqs: 64,
          gpus: 2,
          prefillReplicas: pools.prefill,
          decodeReplicas: pools.decode,
          decodeGpus,
        },
      },
      resources: {
        ...whole,
        gpu: 'H100',
        gpus: countPoolGpus(pools),
        cpuCores: servers,
        memoryMiB: 4096 * servers,
        pools,
      },
      deployed: { server, weights: 'given' },
      container: buildLanguageContainer(server, 'llama-3.1-8b', hubModel),
      evidence: simulatedEvidence,
    },
    { headroom: 0.2, modelUri: hubModel },
  )
}

/**
 * A pipeline whose entry calls `embed` for each request and `rank` for 30 % of them.
 * @param target whose addresses the entry has in its arguments
 */
export function pipelineServings({ pipeline }: SpecTarget, options: SpecOptions = {}): Serving[] {
  const pipelineRps = best.capacityRps
  const createStage = (
    name: string,
    visits: number,
    trialReplicas: number,
    calls: readonly Serving[] = [],
  ): Serving => {
    const stageCalls = calls.map(
      (called): StageCall => ({
        serving: called.name,
        ratio: called.stage!.name === 'rank' ? 0.3 : 1,
        url: pipeline!.stageUrl(called, options),
        isWired: true,
      }),
    )
    const stage = createServing(
      {
        ...found,
        candidate: {
          ...best,
          configuration: { cpuCores: 1.5, memoryMiB: 1500, batchSize: 8 },
          capacityRps: (pipelineRps * visits) / trialReplicas,
          estimateRps: undefined,
        },
        resources: noGpu,
        container: {
          ...container,
          image: `registry.example/${name}:1`,
          args: [`--model=${name}`, ...stageCalls.map(({ url }) => `--call=${url}`)],
        },
      },
      {
        name: `shop-${name}`,
        headroom: 0.2,
        demandRps: 1.5 * pipelineRps * visits,
        stageShare: { pipelineRps, visits, trialReplicas },
      },
    )
    return { ...stage, stage: { name, calls: stageCalls } }
  }
  const called = [createStage('embed', 1, 2), createStage('rank', 0.3, 1)]
  return [markEntry(createStage('tokenise', 1, 1, called), 1.6 * pipelineRps), ...called]
}

/** A simulated chain of two built-in predictors, which do not call each other. */
export function simulatedChain({ pipeline }: SpecTarget, options: SpecOptions = {}): Serving[] {
  const createStage = (name: string, calls: readonly StageCall[]): Serving => ({
    ...createServing(
      {
        ...found,
        model: name,
        deployed: { server: 'builtin', engine: 'tfjs', weights: 'given' },
        evidence: {
          ...evidence,
          measured: {
            ...ownCommand,
            server: 'builtin',
            engine: 'emulated',
            how: 'simulated',
            model: name,
            gpu: 'T4',
            modelKind: 'encoder',
            weights: 'none',
          },
        },
      },
      { name: `chain-${name}`, headroom: 0.2, modelUri: `s3://bucket/${name}` },
    ),
    stage: { name, calls },
  })
  const second = createStage('resnet50', [])
  const call = {
    serving: second.name,
    ratio: 1,
    url: pipeline!.stageUrl(second, options),
    isWired: false,
  }
  return [markEntry(createStage('bert', [call]), best.capacityRps), second]
}

const markEntry = (serving: Serving, verifyRps: number): Serving => ({
  ...serving,
  stage: { ...serving.stage!, verifyRps },
})
