/** Configurations that tests put into other people's manifests: simulated, as those who have no GPU have them. */
import type { Configuration } from '../../../search/types.ts'
import type { MeasuredWith } from '../../../trials/measured-with.ts'
import { createServing } from '../create-serving.ts'
import { buildLanguageContainer } from '../servers/language.ts'
import type { Serving, ServingOptions } from '../serving.ts'
import { best, evidence, found, llama, whole } from '../spec-samples.contract.ts'
import { patchManifests } from './patch-manifests.ts'

/** BERT in the built-in predictor, on one whole A100. */
export const bert = (options: Partial<ServingOptions> = { demandRps: 900 }): Serving =>
  createServing(
    {
      ...found,
      resources: { ...whole, gpu: 'A100-80GB', gpuMemoryMiB: 81_920 },
      candidate: {
        ...best,
        configuration: { gpu: 'A100-80GB', cpuCores: 2, memoryMiB: 4096, batchSize: 32 },
      },
      deployed: { server: 'builtin', engine: 'tfjs', weights: 'missing' },
      container: {
        image: 'registry.example/tune-predictor:0.1',
        env: { BATCH_SIZE: '32', MODEL: 'bert', ENGINE: 'tfjs' },
        tunedEnv: ['BATCH_SIZE'],
        port: 8000,
        readyPath: '/',
      },
      evidence: {
        ...evidence,
        measured: {
          how: 'simulated',
          server: 'builtin',
          engine: 'emulated',
          model: 'bert',
          modelKind: 'encoder',
          weights: 'none',
        } as MeasuredWith,
      },
    },
    { headroom: 0.2, ...options },
  )

/** A language model on vLLM. */
export const language = (tuned: Configuration = {}, gpus = 1): Serving =>
  createServing(
    {
      ...found,
      model: 'llama',
      resources: { ...whole, gpu: 'L40S', gpus, gpuMemoryMiB: 46_000 },
      candidate: {
        ...best,
        configuration: {
          gpu: 'L40S',
          gpus,
          maxNumSeqs: 64,
          maxNumBatchedTokens: 2048,
          ...tuned,
        },
      },
      deployed: { server: 'vllm', weights: 'given' },
      container: buildLanguageContainer('vllm', 'llama', 'my/model'),
      evidence: { ...evidence, measured: llama },
    },
    { headroom: 0 },
  )

export const patchWith = (serving: Serving, text: string, container?: string) =>
  patchManifests(text, serving, { file: 'f.yaml', ...(container !== undefined && { container }) })
