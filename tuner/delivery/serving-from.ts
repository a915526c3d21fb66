/** How a recommended (or any) configuration is deployed: the container that the experiment's template makes, with the measurement behind it. */

import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { type Container, type Evidence, type Serving, type ServingOptions, servingOf } from '../../reports/specs/serving.ts'
import { tfservingImage } from '../../reports/specs/tfserving-deployment.ts'
import { tritonImage } from '../../reports/specs/triton-config.ts'
import { demandOf } from '../../search/objective.ts'
import type { Configuration } from '../../search/types.ts'
import { builtinProtocol, servingEnvironment } from '../../trials/launchers/builtin.ts'
import { fillCommand } from '../../trials/launchers/fill.ts'
import { withVariant } from '../../trials/launchers/variants.ts'
import { resourcesOf } from '../../trials/resources.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'

/** Built with deploy/predictor.Dockerfile; '-cuda' holds the GPU packages. */
const builtinImage = 'tune-predictor:0.1.0'

/** Stands where only the user knows the image; the API server refuses it until it is replaced. */
export const imageToFill = 'REPLACE_WITH_YOUR_IMAGE'

const port = 8000

export interface DeployOptions extends Partial<ServingOptions> {
  /** The user's own image, in place of the one that stands for it. */
  readonly image?: string
}

/**
 * Everything a spec needs of one candidate.
 * @throws SpecError for a candidate that cannot serve.
 */
export function servingFrom(
  experiment: Experiment,
  recommendation: Recommendation,
  candidate: Candidate,
  trials: readonly FinishedTrial[],
  { image, ...options }: DeployOptions = {},
): Serving {
  const { objective, headroom } = experiment
  const server = options.server ?? serverOf(experiment)
  const demandRps = demandOf(objective)?.demandRps
  return servingOf(
    experiment.model.name,
    candidate,
    resourcesOf(candidate.configuration, {}, experiment.own.gpus),
    {
      ...(platformContainer(experiment, server) ?? containerOf(experiment, candidate.configuration)),
      ...(image === undefined ? {} : { image }),
    },
    evidenceOf(recommendation, candidate, trials),
    {
      headroom,
      demandRps,
      modelVersion: experiment.model.version,
      // By which the trials asked for it; emulated ones asked for none, and it may not give their shares.
      gpuScheme: experiment.devicesUsed === 'gpu' ? experiment.kubernetes?.gpuScheme : undefined,
      dra: experiment.kubernetes?.dra,
      ...defined({ ...options, server }),
    },
  )
}

/** The server that the experiment itself starts, where it is one whose files can be written. */
export const serverOf = ({ predictor }: Experiment): ServingOptions['server'] =>
  predictor.kind === 'command' ? predictor.server?.kind : undefined

/** A flag that was not given must not undo what the experiment says. */
const defined = (options: Partial<ServingOptions>): Partial<ServingOptions> =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

/** A known server in place of the experiment's predictor: its official image, probes and metrics; its knobs go into its own configuration. */
function platformContainer({ model, space }: Experiment, server: ServingOptions['server']): Container | undefined {
  if (server === 'tfserving') {
    const gpu = space.parameters.some((parameter) => parameter.name === 'gpu')
    const readyPath = `/v1/models/${encodeURIComponent(model.name)}`
    return { image: tfservingImage(gpu), port: 8501, readyPath, requestsMetric: ':tensorflow:serving:request_count' }
  }
  if (server === 'triton') {
    const paths = { readyPath: '/v2/health/ready', livePath: '/v2/health/live' }
    return { image: tritonImage, port: 8000, ...paths, requestsMetric: 'nv_inference_request_success' }
  }
  return undefined
}

/** The container of a configuration: the built-in predictor's image, or the user's command in an image that the user names. */
export function containerOf({ predictor: asked, space, own }: Experiment, given: Configuration): Container {
  const { template: predictor, configuration } = withVariant(asked, given)
  const { cpuCores, gpu } = resourcesOf(configuration, {}, own.gpus)
  switch (predictor.kind) {
    case 'builtin':
      if (protocolTable[builtinProtocol(predictor)].streams) return languageModelContainer(predictor.model, configuration)
      return {
        image: gpu === undefined ? builtinImage : `${builtinImage}-cuda`,
        env: {
          ...servingEnvironment(predictor, configuration, 'tfjs'),
          MODEL: predictor.model,
          ENGINE: predictor.engine === 'onnx' ? 'onnx' : 'tfjs',
          CPU_CORES: String(Math.ceil(cpuCores)),
          HOST: '0.0.0.0',
          PORT: String(port),
        },
        port,
        readyPath: '/v2/health/ready',
        livePath: '/v2/health/live',
        requestsMetric: 'predictor_requests_total',
      }
    case 'command': {
      const values = { host: '0.0.0.0', port, model: predictor.model, trial: 0, dir: '/etc/predictor', cpuCores }
      const { argv, env, files } = fillCommand(predictor, space.parameters, configuration, values)
      return {
        image: imageToFill,
        command: argv,
        env,
        files: files.map((file) => ({ path: `/etc/predictor/${file.path}`, contents: file.contents })),
        port,
        readyPath: predictor.healthPath ?? protocolTable[predictor.protocol].readyPath(predictor.model),
      }
    }
    case 'url':
      return { image: imageToFill, port, readyPath: predictor.healthPath ?? protocolTable[predictor.protocol].readyPath(predictor.model) }
  }
}

/** The built-in predictor only emulates language models: what deploys is vLLM, whose scheduler it follows, under the same values. The user names image and weights. */
function languageModelContainer(model: string, configuration: Configuration): Container {
  const { gpus } = resourcesOf(configuration)
  const flags = Object.entries({ ...configuration, tensorParallelSize: gpus }).filter(
    ([name, value]) => vllmFlags.has(name) && String(value) !== 'none',
  )
  const args = flags.map(([name, value]) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}=${value}`)
  return {
    image: imageToFill,
    command: ['vllm', 'serve', model],
    args: [`--port=${port}`, ...args],
    port,
    readyPath: '/health',
    requestsMetric: 'vllm:request_success_total',
  }
}

/** Tuned values that vLLM has by the same name. */
const vllmFlags: ReadonlySet<string> = new Set([
  'maxNumSeqs',
  'maxNumBatchedTokens',
  'maxModelLen',
  'gpuMemoryUtilization',
  'tensorParallelSize',
  'quantization',
])

/** The measurement behind a candidate: its confirmation where there is one, else its trial. */
function evidenceOf(recommendation: Recommendation, candidate: Candidate, trials: readonly FinishedTrial[]): Evidence {
  const confirmation = recommendation.best?.trial === candidate.trial ? recommendation.confirmation?.trial : undefined
  const trial = confirmation ?? trials.find((t) => t.number === candidate.trial)
  const points = trial?.state === 'complete' ? trial.measurement.points : []
  const nearest = [...points].sort(
    (a, b) => Math.abs(a.offeredRps - candidate.capacityRps) - Math.abs(b.offeredRps - candidate.capacityRps),
  )[0]
  const { experimentId, provenance, seed, slo, verdict } = recommendation
  return {
    experimentId,
    provenance,
    seed,
    slo,
    verdict,
    measuredAt: trial?.startedAt,
    launchSeconds: trial?.usage?.launchSeconds,
    cpuCoresBusy: coresAtCapacity(trial, candidate),
    meanMsAtCapacity: nearest && Number.isFinite(nearest.meanMs) ? nearest.meanMs : undefined,
  }
}

/** Cores busy at the capacity: those of the busiest seconds, which stand for saturation, in proportion; else the mean of the trial. */
function coresAtCapacity(trial: FinishedTrial | undefined, { capacityRps }: Candidate): number | undefined {
  const busiest = trial?.usage?.busiestCpuCores
  if (busiest === undefined || trial?.state !== 'complete' || trial.measurement.saturationRps <= 0) return trial?.usage?.cpuCores
  return busiest * Math.min(1, capacityRps / trial.measurement.saturationRps)
}
