/**
 * How a recommended (or any) configuration is deployed: the container that the experiment's
 * template makes, with the measurement behind it.
 */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { type Deployed, type DeployedServer, deployedFor } from '../../reports/figures.ts'
import { describeStatus } from '../../reports/recommendation/describe-status.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import { capacityText } from '../../reports/recommendation/words.ts'
import { createServing } from '../../reports/specs/create-serving.ts'
import { resolveWeightsPath } from '../../reports/specs/model-storage.ts'
import { imagePlaceholder } from '../../reports/specs/placeholders.ts'
import { buildLanguageContainer } from '../../reports/specs/servers/language.ts'
import { mlserverImage } from '../../reports/specs/servers/mlserver.ts'
import {
  findCommandCounter,
  requestCounters,
} from '../../reports/specs/servers/request-counters.ts'
import { tfservingImage } from '../../reports/specs/servers/tfserving.ts'
import { tritonImage } from '../../reports/specs/servers/triton.ts'
import type { Container, Evidence, Serving, ServingOptions } from '../../reports/specs/serving.ts'
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
  formatEnvironmentName,
  type LauncherValues,
  listTunedParts,
  preparedPlaceholder,
} from '../../trials/launchers/fill.ts'
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
import { measuredOf } from '../config/measured-of.ts'
import { isOwnPredictor } from '../config/settings/kubernetes-settings.ts'
import type { Experiment } from '../config/types.ts'

const [port, grpcPort] = [8000, 8001]

export interface DeployOptions extends Partial<ServingOptions> {
  /** The user's own image, in place of the one that stands for it. */
  readonly image?: string
  /** Another server than the one that was measured, or that stands for what was emulated. */
  readonly server?: DeployedServer
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
  { image, server, ...options }: DeployOptions = {},
): Serving {
  const { objective, headroom } = experiment
  const { configuration } = candidate
  const measured = measuredOf(experiment, recommendation.provenance, configuration)
  const what = {
    ...deployedFor(measured),
    ...(server === undefined ? {} : { server, engine: undefined }),
  }
  const modelUri =
    options.modelUri ?? (isLanguageServer(what.server) ? hubPlace(measured) : undefined)
  const weights = findsOwn.has(what.server) ? 'own' : modelUri === undefined ? 'missing' : 'given'
  const deployed: Deployed = { ...what, weights }
  // A server of language models takes what a variant stands for; the built-in predictor's container
  // has it already.
  const { [sourceParameter]: _, ...tuned } = isLanguageServer(what.server)
    ? applyVariant(experiment.predictor, configuration).configuration
    : configuration
  return createServing(
    {
      model: experiment.model.name,
      candidate: { ...candidate, configuration: tuned },
      resources: parseResources(configuration, {}, experiment.own.gpus),
      deployed,
      container: {
        ...(platformContainer(experiment, what.server, modelUri) ??
          containerOf(experiment, configuration, options)),
        ...(image === undefined ? {} : { image, isImageNamed: true }),
      },
      evidence: {
        ...evidenceOf(recommendation, candidate, trials, measured),
        batching: measuredBatching(experiment, configuration),
      },
    },
    {
      headroom,
      demandRps: getDemand(objective)?.demandRps,
      modelVersion: experiment.model.version,
      // By which the trials asked for it; emulated ones asked for none, and it may not give their
      // shares.
      gpuScheme: experiment.devicesUsed === 'gpu' ? experiment.kubernetes?.gpuScheme : undefined,
      dra: experiment.kubernetes?.dra,
      overlay: isOwnPredictor(experiment.kubernetes?.pod) ? undefined : experiment.kubernetes?.pod,
      ...defined({ ...options, modelUri }),
    },
  )
}

/** How the built-in predictor gathered batches; undefined for any other server. */
function measuredBatching(
  { predictor, own }: Experiment,
  given: Configuration,
): Evidence['batching'] {
  const { template, configuration } = applyVariant(predictor, given)
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

/** Never a path of the machine that measured. */
const hubPlace = ({ weightsPath = '' }: MeasuredWith): string | undefined =>
  parseHubName(weightsPath) === undefined ? undefined : weightsPath

/** Servers that know where their weights are, each in its own way. */
const findsOwn: ReadonlySet<DeployedServer> = new Set(['command', 'url', 'imported', 'ray'])

/** A flag that was not given must not undo what the experiment says. */
const defined = (options: Partial<ServingOptions>): Partial<ServingOptions> =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

/**
 * A known server in place of the experiment's predictor: its official image, probes and metrics;
 * its knobs go into its own configuration.
 */
function platformContainer(
  { model, space }: Experiment,
  server: DeployedServer,
  modelUri: string | undefined,
): Container | undefined {
  const gpu = space.parameters.some((parameter) => parameter.name === 'gpu')
  if (server === 'tfserving') {
    const readyPath = `/v1/models/${encodeURIComponent(model.name)}`
    return {
      image: tfservingImage(gpu),
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
 * The container of a configuration: the built-in predictor's image, or the user's command in an
 * image that the user names.
 */
export function containerOf(
  { predictor: asked, space, own, kubernetes }: Experiment,
  given: Configuration,
  { modelUri, modelVersion }: Pick<ServingOptions, 'modelUri' | 'modelVersion'> = {},
): Container {
  const { template: predictor, configuration } = applyVariant(asked, given)
  const resources = parseResources(configuration, {}, own.gpus)
  switch (predictor.kind) {
    case 'builtin': {
      const { streams, transport } = protocolTable[getBuiltinProtocol(predictor)]
      // Of a language model that was emulated, what deploys is the server that was named, else
      // vLLM, whose scheduler it follows, under the same values.
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
        // The trials' image is one of `tune` itself.
        ...(image === undefined ? {} : { args: ['predictor'] }),
        // Emulated in whatever precision; refused by the engine that computes.
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
          // Never the path of the machine that measured, and never weights that were made up.
          MODEL_PATH:
            modelUri === undefined ? weightsToFill : resolveWeightsPath(modelUri, 'builtin'),
          ...(modelVersion === undefined
            ? {}
            : { MODEL_VERSION_POLICY: versionPolicy(modelVersion) }),
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
        prepared: preparedPlace,
      }
      const { argv, env, files } = fillCommand(predictor, space.parameters, configuration, values)
      const parts = listTunedParts(predictor, space.parameters)
      const tuned = fillCommand(parts.template, space.parameters, configuration, values)
      return {
        image: imagePlaceholder,
        ...notesOf(predictor, configuration, values),
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

/** What a container cannot have of the trials. */
function notesOf(
  { prepare, reconfigure }: CommandTemplate,
  configuration: Configuration,
  values: LauncherValues,
): { notes?: string[] } {
  const notes = [
    ...(prepare ? [preparedNote(fillPrepare(prepare, configuration, values))] : []),
    ...(reconfigure
      ? [
          reconfigureNote(
            fillReconfigure(reconfigure, configuration, { ...values, host: '127.0.0.1' }),
          ),
        ]
      : []),
  ]
  return notes.length > 0 ? { notes } : {}
}

const reconfigureNote = (words: readonly string[]): string =>
  `the trials set values after the start, and this spec does not: after each start, run ${words.join(' ')}`

/** Where an image has what a `prepare` step makes. */
const preparedPlace = '/prepared'
const preparedNote = ({ argv }: FilledPrepare): string =>
  `the trials ran ${argv.join(' ').replaceAll(preparedPlaceholder, preparedPlace)} first; the image must contain its output in ${preparedPlace}`

/** As the built-in predictor reads it. */
const versionPolicy = (version: string): string =>
  /^\d+$/.test(version) ? `specific:${version}` : version

/** The measurement behind a candidate: its confirmation where there is one, else its trial. */
function evidenceOf(
  recommendation: Recommendation,
  candidate: Candidate,
  trials: readonly FinishedTrial[],
  measured: MeasuredWith,
): Evidence {
  const confirmation =
    recommendation.best?.trial === candidate.trial ? recommendation.confirmation?.trial : undefined
  const trial = confirmation ?? trials.find((t) => t.number === candidate.trial)
  // What it takes at its worst, the confirmation being one run of several.
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
  const verdict = verdictOn(recommendation, candidate)
  const meanMs = nearest?.stream?.e2e.meanMs ?? nearest?.meanMs
  return {
    experimentId,
    measured,
    seed,
    slo,
    verdict,
    status: candidate.status,
    measuredAt: trial?.startedAt,
    launchSeconds: greatest(runs.map(({ usage }) => usage?.startSeconds ?? usage?.launchSeconds)),
    nodeWaitSeconds: greatest(runs.map(({ usage }) => usage?.nodeWaitSeconds)),
    cpuCoresBusy: coresAtCapacity(trial, candidate),
    slowestMs: slowestOf(trial),
    peakRssMiB: greatest(runs.map(({ usage }) => usage?.peakRssMiB)),
    meanMsAtCapacity: meanMs !== undefined && Number.isFinite(meanMs) ? meanMs : undefined,
  }
}

/**
 * What is said first of a trial that was asked for: that it is not the recommended one, and what it
 * came to.
 */
function verdictOn({ best, verdict, provenance }: Recommendation, candidate: Candidate): string {
  if (best?.trial === candidate.trial) return verdict
  const recommended =
    best === undefined ? 'No trial is recommended' : `Recommended is trial ${best.trial}`
  return `Trial ${candidate.trial}: ${candidate.label}, ${capacityText(candidate)}, ${describeStatus(candidate.status, provenance).name}. ${recommended}: ${verdict}`
}

const greatest = (values: readonly (number | undefined)[]): number | undefined => {
  const known = values.filter((value) => value !== undefined)
  return known.length > 0 ? Math.max(...known) : undefined
}

/** Answers of open load alone: a closed loop waits for what is as slow as it is. */
const slowestOf = (trial: FinishedTrial | undefined): number | undefined =>
  trial?.state === 'complete'
    ? greatest(
        trial.measurement.points
          .filter(({ load }) => load.kind === 'open')
          .map((p) => (Number.isFinite(p.maxMs) ? (p.stream?.e2e.maxMs ?? p.maxMs) : undefined)),
      )
    : undefined

/**
 * Cores busy at the capacity: those of the busiest seconds, which stand for saturation, in
 * proportion; else the mean of the trial.
 */
function coresAtCapacity(
  trial: FinishedTrial | undefined,
  { capacityRps }: Candidate,
): number | undefined {
  const busiest = trial?.usage?.busiestCpuCores
  if (busiest === undefined || trial?.state !== 'complete' || trial.measurement.saturationRps <= 0)
    return trial?.usage?.cpuCores
  return busiest * Math.min(1, capacityRps / trial.measurement.saturationRps)
}
