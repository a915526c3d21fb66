/**
 * Resolves how a configuration is deployed: its container, resources and weights, with the
 * measurement behind it.
 */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { type Deployed, type DeployedServer, resolveDeployed } from '../../reports/figures.ts'
import { describeStatus } from '../../reports/recommendation/describe-status.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { formatCapacity } from '../../reports/recommendation/words.ts'
import { createServing } from '../../reports/specs/create-serving.ts'
import { resolveWeightsPath } from '../../reports/specs/model-storage.ts'
import { imagePlaceholder } from '../../reports/specs/placeholders.ts'
import { buildLanguageContainer } from '../../reports/specs/servers/language.ts'
import { mlserverImage } from '../../reports/specs/servers/mlserver.ts'
import {
  findCommandCounter,
  requestCounters,
} from '../../reports/specs/servers/request-counters.ts'
import { chooseTfservingImage } from '../../reports/specs/servers/tfserving.ts'
import { tritonImage } from '../../reports/specs/servers/triton.ts'
import type { Container, Evidence, Serving, ServingOptions } from '../../reports/specs/serving.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import { getDemand } from '../../search/objective.ts'
import type { Configuration } from '../../search/types.ts'
import { isOnnxFile } from '../../trials/devices/onnx/graph-architecture.ts'
import { createPredictorEnvironment, getBuiltinProtocol } from '../../trials/launchers/builtin.ts'
import { chooseBuiltinImage } from '../../trials/launchers/builtin-image.ts'
import {
  type FilledPrepare,
  fillCommand,
  fillPrepare,
  fillReconfigure,
  listTunedParts,
  preparedPlaceholder,
} from '../../trials/launchers/fill.ts'
import {
  formatEnvironmentName,
  type LauncherValues,
  listStageValues,
} from '../../trials/launchers/placeholders.ts'
import type { CommandTemplate } from '../../trials/launchers/template.ts'
import { applyVariant } from '../../trials/launchers/variants.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import {
  countCpuInstances,
  parseResources,
  readServingParameters,
  sourceParameter,
} from '../../trials/resources.ts'
import { parseHubName } from '../../trials/servers/language-servers.ts'
import { isLanguageServer } from '../../trials/servers/server-kinds.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { isUserPredictor } from '../config/kubernetes-settings.ts'
import { resolveMeasuredWith } from '../config/measured-with.ts'
import type { Experiment } from '../config/types.ts'

const [port, grpcPort] = [8000, 8001]

export interface DeployOptions extends Partial<ServingOptions> {
  /** The user's own image instead of the default. */
  readonly image?: string
  /** A server other than the measured or emulated one. */
  readonly server?: DeployedServer
  /** Addresses of the stages that the predictor calls, by name. */
  readonly stageUrls?: ReadonlyMap<string, string>
  /** What was measured of a stage, in place of the figures of the whole pipeline. */
  readonly stageEvidence?: Partial<Evidence>
}

/**
 * Everything that a spec needs of one candidate.
 * @throws SpecError for a candidate that cannot serve.
 */
export function resolveServing(
  experiment: Experiment,
  recommendation: Recommendation,
  candidate: Candidate,
  trials: readonly FinishedTrial[],
  { image, server, stageUrls, stageEvidence, ...options }: DeployOptions = {},
): Serving {
  if (experiment.stages !== undefined)
    throw new SpecError(
      'this does not deploy pipelines yet',
      'deploy their stages by tune spec --target kubernetes, kserve or compose',
    )
  const { objective, headroom } = experiment
  const { configuration } = candidate
  const measured = resolveMeasuredWith(experiment, recommendation.provenance, configuration)
  const target = {
    ...resolveDeployed(measured),
    ...(server === undefined ? {} : { server, engine: undefined }),
  }
  const modelUri =
    options.modelUri ?? (isLanguageServer(target.server) ? findHubUri(measured) : undefined)
  const weights = serversWithOwnWeights.has(target.server)
    ? 'own'
    : modelUri === undefined
      ? 'missing'
      : 'given'
  const deployed: Deployed = { ...target, weights }
  // A language-model server needs the values of a variant; the container of the built-in predictor
  // has it already.
  const { [sourceParameter]: _, ...tuned } = isLanguageServer(target.server)
    ? applyVariant(experiment.predictor, configuration).configuration
    : configuration
  return createServing(
    {
      model: experiment.model.name,
      tritonModels:
        experiment.predictor.kind === 'command' ? experiment.predictor.server?.models : undefined,
      candidate: { ...candidate, configuration: tuned },
      resources: parseResources(configuration, {}, experiment.own.gpus),
      deployed,
      container: {
        ...(buildPlatformContainer(experiment, target.server, modelUri) ??
          buildContainer(experiment, configuration, { ...options, stageUrls })),
        ...(image === undefined ? {} : { image, isImageNamed: true }),
      },
      evidence: {
        ...collectEvidence(recommendation, candidate, trials, measured),
        batching: describeBatching(experiment, configuration),
        ...stageEvidence,
      },
    },
    {
      headroom,
      demandRps: getDemand(objective)?.demandRps,
      modelVersion: experiment.model.version,
      // The scheme of the trials. Emulated trials requested no GPU, and the scheme may not support
      // their shares.
      gpuScheme: experiment.devicesUsed === 'gpu' ? experiment.kubernetes?.gpuScheme : undefined,
      dra: experiment.kubernetes?.dra,
      overlay: isUserPredictor(experiment.kubernetes?.pod) ? undefined : experiment.kubernetes?.pod,
      ...dropUndefined({ ...options, modelUri }),
    },
  )
}

/** Batching of the measured built-in predictor; undefined for other servers. */
function describeBatching(
  { predictor, own }: Experiment,
  requested: Configuration,
): Evidence['batching'] {
  const { template, configuration } = applyVariant(predictor, requested)
  if (template.kind !== 'builtin' || protocolTable[getBuiltinProtocol(template)].streams)
    return undefined
  const { gpu, cpuCores } = parseResources(configuration, {}, own.gpus)
  const { MAX_DELAY_MS, INSTANCES } = template.env ?? {}
  const { instances, maxDelayMs } = readServingParameters(configuration, {
    instances: INSTANCES ?? (gpu === undefined ? countCpuInstances(cpuCores) : 1),
    ...(MAX_DELAY_MS !== undefined && { maxDelayMs: MAX_DELAY_MS }),
  })
  return { instances, maxDelayMs }
}

/** Weights by their name on the Hub, never by a path of this machine. */
const findHubUri = ({ weightsPath = '' }: MeasuredWith): string | undefined =>
  parseHubName(weightsPath) === undefined ? undefined : weightsPath

/** Servers whose own configuration locates the weights. */
const serversWithOwnWeights: ReadonlySet<DeployedServer> = new Set([
  'command',
  'url',
  'imported',
  'ray',
])

/** Drops undefined options, so that they do not override the experiment. */
const dropUndefined = (options: Partial<ServingOptions>): Partial<ServingOptions> =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

/**
 * Builds the container of a known server instead of the experiment's predictor: official image,
 * probes and metrics. Its settings go into its own configuration.
 */
function buildPlatformContainer(
  { model, space }: Experiment,
  server: DeployedServer,
  modelUri: string | undefined,
): Container | undefined {
  const gpu = space.parameters.some((parameter) => parameter.name === 'gpu')
  if (server === 'tfserving') {
    const readyPath = `/v1/models/${encodeURIComponent(model.name)}`
    return {
      image: chooseTfservingImage(gpu),
      port: 8501,
      grpcPort: 8500,
      readyPath,
      requestsMetric: requestCounters.tfserving,
    }
  }
  if (server === 'triton') {
    const paths = { readyPath: '/v2/health/ready', livePath: '/v2/health/live' }
    return {
      image: tritonImage,
      port: 8000,
      grpcPort: 8001,
      ...paths,
      requestsMetric: requestCounters.triton,
    }
  }
  if (server === 'mlserver') {
    const paths = { readyPath: '/v2/health/ready', livePath: '/v2/health/live' }
    return {
      image: mlserverImage,
      port: 8080,
      ...paths,
      requestsMetric: requestCounters.mlserver,
    }
  }
  if (isLanguageServer(server)) return buildLanguageContainer(server, model.name, modelUri)
  return undefined
}

/**
 * Builds the container of a configuration: the image of the built-in predictor, or the user's
 * command in the user's image.
 */
export function buildContainer(
  { predictor: template, space, own, kubernetes }: Experiment,
  requested: Configuration,
  {
    modelUri,
    modelVersion,
    stageUrls,
  }: Pick<DeployOptions, 'modelUri' | 'modelVersion' | 'stageUrls'> = {},
): Container {
  const { template: predictor, configuration } = applyVariant(template, requested)
  const resources = parseResources(configuration, {}, own.gpus)
  switch (predictor.kind) {
    case 'builtin': {
      const { streams, transport } = protocolTable[getBuiltinProtocol(predictor)]
      // An emulated language model deploys on the named server, or on vLLM, whose scheduler the
      // emulation follows, with the same values.
      const gguf = predictor.engine === 'gguf'
      if (streams && !gguf)
        return buildLanguageContainer(predictor.standsFor ?? 'vllm', predictor.model, modelUri)
      const onnx = predictor.engine === 'onnx' || isOnnxFile(predictor.architectureFile)
      const engine = gguf ? 'gguf' : onnx ? 'onnx' : 'tfjs'
      const { PRECISION: precision = 'fp32', ...env } = createPredictorEnvironment(
        predictor,
        configuration,
        engine,
        resources,
      )
      const image = kubernetes?.image
      return {
        image:
          image ??
          chooseBuiltinImage({ engine, gpu: resources.gpu !== undefined }) ??
          imagePlaceholder,
        // This image is `tune` itself, so it needs the subcommand.
        ...(image === undefined ? {} : { args: ['predictor'] }),
        // Emulation supports any precision; the real engine uses that of the model.
        ...(precision === 'fp32'
          ? {}
          : {
              notes: [
                `precision = ${precision} was tuned but is not set: ENGINE=${engine} uses the precision of the model`,
              ],
            }),
        tunedEnv: Object.keys(configuration).map(formatEnvironmentName),
        env: {
          ...env,
          // Neither a path of this machine nor random weights.
          MODEL_PATH:
            modelUri === undefined ? weightsToFill : resolveWeightsPath(modelUri, 'builtin'),
          ...(modelVersion === undefined
            ? {}
            : { MODEL_VERSION_POLICY: formatVersionPolicy(modelVersion) }),
          HOST: '0.0.0.0',
          PORT: String(port),
          ...(transport === 'grpc' && { GRPC_PORT: String(grpcPort) }),
        },
        port,
        ...(transport === 'grpc' && { grpcPort }),
        readyPath: gguf ? '/health' : '/v2/health/ready',
        livePath: gguf ? '/health' : '/v2/health/live',
        requestsMetric: requestCounters.builtin,
      }
    }
    case 'command': {
      const values = {
        host: '0.0.0.0',
        port,
        model: predictor.model,
        trial: 0,
        dir: '/etc/predictor',
        cpuCores: resources.cpuCores,
        prepared: preparedFolder,
        ...listStageValues(stageUrls),
      }
      const { argv, env, files } = fillCommand(predictor, space.parameters, configuration, values)
      const parts = listTunedParts(predictor, space.parameters)
      const tuned = fillCommand(parts.template, space.parameters, configuration, values)
      return {
        image: imagePlaceholder,
        ...listContainerNotes(predictor, configuration, values),
        ...findCommandCounter(argv),
        command: argv,
        env,
        tunedEnv: Object.keys(tuned.env),
        tunedArgs: tuned.argv,
        tunedElsewhere: parts.elsewhere,
        files: files.map((file) => ({
          path: `/etc/predictor/${file.path}`,
          contents: file.contents,
        })),
        port,
        readyPath:
          predictor.healthPath ?? protocolTable[predictor.protocol].readyPath(predictor.model),
      }
    }
    case 'imported':
    case 'url':
      return {
        image: imagePlaceholder,
        port,
        readyPath:
          predictor.healthPath ?? protocolTable[predictor.protocol].readyPath(predictor.model),
      }
  }
}

/** Notes on steps of the trials that the container does not contain. */
function listContainerNotes(
  { prepare, reconfigure }: CommandTemplate,
  configuration: Configuration,
  values: LauncherValues,
): { notes?: string[] } {
  const notes = [
    ...(prepare ? [describePrepare(fillPrepare(prepare, configuration, values))] : []),
    ...(reconfigure
      ? [
          describeReconfigure(
            fillReconfigure(reconfigure, configuration, { ...values, host: '127.0.0.1' }),
          ),
        ]
      : []),
  ]
  return notes.length > 0 ? { notes } : {}
}

const describeReconfigure = (words: readonly string[]): string =>
  `the trials set values after the start, and this spec does not: after each start, run ${words.join(' ')}`

/** Folder of the image with the output of the `prepare` step. */
const preparedFolder = '/prepared'
const describePrepare = ({ argv }: FilledPrepare): string =>
  `the trials ran ${argv.join(' ').replaceAll(preparedPlaceholder, preparedFolder)} first; the image must contain its output in ${preparedFolder}`

/** The form that the built-in predictor reads. */
const formatVersionPolicy = (version: string): string =>
  /^\d+$/.test(version) ? `specific:${version}` : version

/** Collects the measurement behind a candidate: its confirmation, or else its trial. */
function collectEvidence(
  recommendation: Recommendation,
  candidate: Candidate,
  trials: readonly FinishedTrial[],
  measured: MeasuredWith,
): Evidence {
  const confirmation =
    recommendation.best?.trial === candidate.trial ? recommendation.confirmation?.trial : undefined
  const trial = confirmation ?? trials.find((t) => t.number === candidate.trial)
  // Maximum use over the confirmation and the trial.
  const runs = [trial, trials.find((t) => t.number === candidate.trial)].filter(
    (t) => t !== undefined,
  )
  const points = trial?.state === 'complete' ? trial.measurement.points : []
  const nearest = [...points].sort(
    (a, b) =>
      Math.abs(a.offeredRps - candidate.capacityRps) -
      Math.abs(b.offeredRps - candidate.capacityRps),
  )[0]
  const { experimentId, seed, slo } = recommendation
  const verdict = describeVerdict(recommendation, candidate)
  const meanMs = nearest?.stream?.e2e.meanMs ?? nearest?.meanMs
  return {
    experimentId,
    measured,
    seed,
    slo,
    verdict,
    status: candidate.status,
    measuredAt: trial?.startedAt,
    launchSeconds: findMax(runs.map(({ usage }) => usage?.startSeconds ?? usage?.launchSeconds)),
    nodeWaitSeconds: findMax(runs.map(({ usage }) => usage?.nodeWaitSeconds)),
    cpuCoresBusy: estimateBusyCores(trial, candidate),
    slowestMs: findSlowestMs(trial),
    peakRssMiB: findMax(runs.map(({ usage }) => usage?.peakRssMiB)),
    meanMsAtCapacity: meanMs !== undefined && Number.isFinite(meanMs) ? meanMs : undefined,
  }
}

/**
 * Describes the verdict on a candidate; for an explicitly chosen trial it says which trial is
 * recommended.
 */
function describeVerdict(
  { best, verdict, provenance }: Recommendation,
  candidate: Candidate,
): string {
  if (best?.trial === candidate.trial) return verdict
  const recommended =
    best === undefined ? 'No trial is recommended' : `Recommended is trial ${best.trial}`
  return `Trial ${candidate.trial}: ${candidate.label}, ${formatCapacity(candidate)}, ${describeStatus(candidate.status, provenance).name}. ${recommended}: ${verdict}`
}

const findMax = (values: readonly (number | undefined)[]): number | undefined => {
  const knownValues = values.filter((value) => value !== undefined)
  return knownValues.length > 0 ? Math.max(...knownValues) : undefined
}

/** Slowest answer under open load; closed loops adapt to the server. */
const findSlowestMs = (trial: FinishedTrial | undefined): number | undefined =>
  trial?.state === 'complete'
    ? findMax(
        trial.measurement.points
          .filter(({ load }) => load.kind === 'open')
          .map((p) => (Number.isFinite(p.maxMs) ? (p.stream?.e2e.maxMs ?? p.maxMs) : undefined)),
      )
    : undefined

/**
 * Busy cores at the capacity: the busiest seconds (saturation) scaled down in proportion; otherwise
 * the mean of the trial.
 */
function estimateBusyCores(
  trial: FinishedTrial | undefined,
  { capacityRps }: Candidate,
): number | undefined {
  const busiest = trial?.usage?.busiestCpuCores
  if (busiest === undefined || trial?.state !== 'complete' || trial.measurement.saturationRps <= 0)
    return trial?.usage?.cpuCores
  return busiest * Math.min(1, capacityRps / trial.measurement.saturationRps)
}
